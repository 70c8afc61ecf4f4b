//===- Options.cpp - The command line of intarsia-compile --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"

#include "intarsia/Import/Import.h"
#include "intarsia/Target/Target.h"
#include "intarsia/Version.h"
#include "lib/Support/Arguments.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <deque>

namespace cl = llvm::cl;

namespace intarsia {
namespace {

/// Keeps a text, as flags refer to theirs.
llvm::StringRef kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

/// The flags. They are made during parsing and are not globals: LLVM's code generator has flags of the same name, which
/// must be removed before.
struct Flags {
  cl::OptionCategory category{"Options of intarsia-compile"};

  cl::opt<std::string> model{cl::Positional, cl::value_desc("MODEL"),
                             cl::desc(kept("<model: " + importer::listKindsBriefly() + ">")), cl::cat(category)};
  cl::opt<std::string> output{
      "o", cl::value_desc("file"), cl::cat(category),
      cl::desc("Where the result goes (default: the model's name with .itx, .o or .run; IR: standard output)")};
  cl::opt<std::string> plan{
      "plan", cl::value_desc("plan.json"), cl::cat(category),
      cl::desc("Compile the models of a plan (intarsia-plan --json) for its pools into the folder -o, with the "
               "precisions and degrees that it chose; there is no MODEL then, but --model for each")};
  cl::list<std::string> models{"model", cl::value_desc("NAME=directory"), cl::cat(category),
                               cl::desc("Where a model of --plan is: llama70b=./Llama-3.1-70B")};
  cl::list<std::string> targets{
      "target", cl::CommaSeparated, cl::value_desc("name"), cl::cat(category),
      cl::desc("What to compile for: cpu (this machine, the default), cpu:znver5, cpu:x86-64-v3, "
               "cpu:x86-64-v4+avx512vnni, cpu:aarch64; several with commas: those of one architecture become "
               "variants of one artifact, those of several need --emit=bundle")};
  cl::opt<bool> listTargets{"list-targets", cl::ValueDisallowed, cl::cat(category),
                            cl::desc("List what --target takes, and end"), cl::callback([](const bool &) {
                              target::printTargets(llvm::outs());
                              llvm::outs().flush();
                              std::exit(0);
                            })};
  cl::opt<bool> requireCubin{
      "require-cubin", cl::cat(category),
      cl::desc("Fail if ptxas, which makes machine code for the targets cuda:…, is not in PATH; without this flag the "
               "driver of the GPU then makes it when it loads the artifact")};
  cl::opt<Emit> emit{
      "emit", cl::init(Emit::Shared), cl::cat(category), cl::desc("What to write:"),
      cl::values(clEnumValN(Emit::Shared, "shared", "artifact for the runtime, weights beside it (default)"),
                 clEnumValN(Emit::Exe, "exe", "program with model and weights inside, as intarsia-run"),
                 clEnumValN(Emit::Obj, "obj", "relocatable object for a linker, weights beside it"),
                 clEnumValN(Emit::Bundle, "bundle", "artifacts for several architectures in one file"))};
  cl::list<std::string> shapes{
      "shape", cl::value_desc("NAME=sizes"), cl::cat(category),
      cl::desc(
          "Sizes of an input of an ONNX file, numbers and names: x=1x3xHxW, or with commas x=1,3,max_h,W; they fix or "
          "name sizes that the file leaves open, and give a shape to an input without one; may be repeated")};
  cl::list<std::string> values{
      "set", cl::value_desc("NAME=value"), cl::cat(category),
      cl::desc("Make an input of an ONNX file a constant, which calls do not give then: axes=[1,2], scale=0.5, "
               "table=@file.npy; may be repeated")};
  cl::opt<std::string> weightsDirectory{
      "weights-dir", cl::value_desc("directory"), cl::cat(category),
      cl::desc(
          "A directory that may hold external data of an ONNX file, besides the model's own: links to files below it "
          "are followed, as in a cache of downloads")};
  cl::opt<bool> listOps{
      "list-ops", cl::ValueDisallowed, cl::cat(category),
      cl::desc(
          "List the ops of an ONNX file, whether each is imported, and why not, and end; without MODEL, list all ops "
          "that are imported")};
  cl::opt<std::string> json{
      "json", cl::value_desc("file.json"), cl::cat(category),
      cl::desc("Write that list as JSON; without --list-ops, when the model is compiled or refused")};
  cl::opt<bool> embedWeights{"embed-weights", cl::cat(category), cl::desc("Put the weights into the artifact")};
  cl::list<std::string> caches{
      "kv", cl::CommaSeparated, cl::value_desc("format"), cl::cat(category),
      cl::desc("How a language model's keys and values are kept: f16 (default), bf16, f32, fp8, int8, int4; of some "
               "layers by a glob over the names of states, int8,cache.0=f16,cache.[2-3]=int4,cache.*.keys=f16: the "
               "last that matches holds")};
  cl::opt<unsigned> context{
      "context", cl::value_desc("tokens"), cl::cat(category),
      cl::desc("Longest text of a language model (default: what it was trained for; models with longrope: what it was "
               "trained for first)")};
  std::string aboutQuantize = "Round stored matrices to this format: " + weightFormatNames() + " (default)";
  cl::opt<std::string> quantize{"quantize", cl::init("none"), cl::value_desc("format"), cl::cat(category),
                                cl::desc(aboutQuantize)};
  // Flags of `intarsia quantize`, which messages name.
  cl::list<std::string> limits{"bits", cl::Hidden, cl::cat(category)};
  cl::opt<std::string> calibration{"calibration", cl::Hidden, cl::cat(category)};
  cl::alias limitOfSize{"size", cl::aliasopt(limits), cl::Hidden};
  cl::alias limitOfLoss{"max-loss", cl::aliasopt(limits), cl::Hidden};
  cl::alias limitOfTime{"faster-than", cl::aliasopt(limits), cl::Hidden};
  cl::opt<std::string> quantizeActivations{
      "quantize-activations", cl::value_desc("bits"), cl::cat(category),
      cl::desc(
          "Inputs of linears with quantized weights: 8: integers, by blocks of 32 (256 where weights have fewer "
          "than 8 bits) as they are computed (default for processors, but for weights in fp8), 8-wide, 8-token: with "
          "one scale for each 256 features or each token, and int8 weights with one for each output feature (8-wide is "
          "the default for processors and models without caches), 8-static: with scales that `intarsia quantize` has "
          "found "
          "(the default for its directories), fmpq: blocks of 8 and of 4 bits that "
          "`intarsia quantize` has chosen (the default for its directories), fp8, mxfp4, nvfp4: the "
          "format of the weights, where they have it, or 16: as they are (default for GPUs)")};
  cl::opt<std::string> quantizeAttention{
      "quantize-attention", cl::value_desc("bits"), cl::cat(category),
      cl::desc("Attention without caches, between linears whose inputs have 8 bits: 8: integers too, with a scale for "
               "each row of a head (default for processors with inputs in 8-wide and 8-token), or 16: as "
               "--matmul-precision says")};
  cl::opt<std::string> matmulPrecision{
      "matmul-precision", cl::init("stored"), cl::value_desc("type"), cl::cat(category),
      cl::desc(
          "What devices with matrix instructions may round to before they multiply, in linears, attention and products "
          "of tensors: f32 (nothing), tf32, bf16, f16, or stored (default): the weight's own type where it has 16 "
          "bits, "
          "f16 where it is quantized, and between linears that have one type that type")};
  cl::list<std::string> quantizeParts{
      "quantize-parts", cl::CommaSeparated, cl::value_desc("part"), cl::cat(category),
      cl::desc("What --quantize applies to: linears, experts, lm_head, embedding (default: all of them), each alone or "
               "with a format "
               "of its own: linears,lm_head=int4. Without one, the head and the embedding have int6 where --quantize "
               "has 4 bits")};
  cl::opt<std::string> precision{
      "precision", cl::value_desc("file.json"), cl::cat(category),
      cl::desc("A file that names formats of single tensors and caches, as `intarsia quantize` writes it where it "
               "chooses formats (default: intarsia-precision.json beside the weights, if it is there)")};
  cl::opt<bool> segmentArguments{
      "segment-arguments", cl::cat(category),
      cl::desc("With --segment: weights are inputs, and results of the model that the layer computes are results too: "
               "`intarsia quantize` tries other weights so")};
  cl::opt<unsigned> segment{
      "segment", cl::value_desc("number"), cl::cat(category),
      cl::desc(
          "Compile one layer of the model, the number-th, with what linears multiply as results: `intarsia quantize` "
          "runs them one after another")};
  cl::opt<std::string> segmentWeights{
      "segment-weights", cl::value_desc("file.safetensors"), cl::cat(category),
      cl::desc(
          "With --segment: a file below the model's directory with the weights of the layer's linears in F32, which "
          "are taken in place of the model's")};
  cl::list<std::string> placements{
      "place", cl::value_desc("names=@device"), cl::cat(category),
      cl::desc("Run the ops whose name in the model matches a glob on a device of --target: "
               "'encoder.layer.[0-2]*=@reference'; may be repeated, the last that matches holds (default: the first "
               "device)")};
  cl::opt<std::string> gpuMemory{
      "gpu-memory", cl::value_desc("size"), cl::cat(category),
      cl::desc("The most memory of the GPU among the targets, 8GB or 7.5GiB: layers that do not fit run on the CPU, "
               "those for which the prediction is fastest")};
  cl::opt<int64_t> world{
      "world", cl::init(1), cl::value_desc("ranks"), cl::cat(category),
      cl::desc("Split the model over so many processes, each with a part of the weights and caches: run it with "
               "intarsia-run --world (default: 1)")};
  cl::opt<std::string> partition{
      "partition", cl::value_desc("kinds"), cl::cat(category),
      cl::desc(
          "How the ranks of --world share the model: tensor, each has a part of every layer, some heads and some "
          "features (default); pipeline, each has some layers, which run one after another; expert, each has some "
          "experts, and parts of everything else as with tensor; context, each computes some tokens of a call with all "
          "weights; data, each computes some examples of a batch; or several of them, pipeline:2,tensor:4, groups of "
          "four ranks that share the layers of one of two stages; tensor,sequence, the same as tensor with some rows "
          "of norms and residuals on each rank; context,heads, the same as context with some heads of all caches on "
          "each rank; interleaved:2 or breadth-first:2, the same as pipeline with two stages on each rank, for single "
          "prompts; auto, whichever of these is fastest by the cost model")};
  cl::opt<std::string> rankLoad{
      "rank-load", cl::value_desc("numbers"), cl::cat(category),
      cl::desc(
          "What the ranks have to do: how many sequences there are at once, how many tokens the prompt of each has, "
          "and how many each is continued by, sequences:8,prompt:512,tokens:128. --partition=auto chooses by it, "
          "another --partition is cut for it; a remark says what it takes (default: one call at the expected "
          "sizes)")};
  cl::opt<std::string> rankMemory{
      "rank-memory", cl::value_desc("size"), cl::cat(category),
      cl::desc("The most weights and caches of a rank, 8GB or 7.5GiB, for --partition=auto (default: no limit)")};
  cl::list<int64_t> rankHosts{
      "rank-hosts", cl::CommaSeparated, cl::value_desc("numbers"), cl::cat(category),
      cl::desc(
          "How many ranks of --world each host has, 2,2, for --partition=auto and --rank-load (default: all are on one "
          "host)")};
  cl::opt<std::string> rankNetwork{"rank-network", cl::value_desc("bandwidth,time"), cl::cat(category),
                                   cl::desc("What is between these hosts, for --partition=auto and --rank-load: the "
                                            "bandwidth of a host's adapter and the time of a "
                                            "short message, 10Gbit/s,50us")};
  cl::opt<std::string> rankFigures{
      "rank-figures", cl::value_desc("file.yaml"), cl::cat(category),
      cl::desc("What intarsia-plan --probe measured on the machine of a rank, with as many threads as a rank has: "
               "pipeline and auto of --partition and --rank-load reckon with these times (default: the figures of the "
               "target)")};
  cl::list<double> rankSpeeds{
      "rank-speeds", cl::CommaSeparated, cl::value_desc("numbers"), cl::cat(category),
      cl::desc("Speed of each rank of --world against the others, 1,0.35: slower ranks get less "
               "(default: all are equal)")};
  cl::opt<std::string> rankMessages{
      "rank-messages", cl::init("f32"), cl::value_desc("format"), cl::cat(category),
      cl::desc(
          "What ranks of different hosts send each other of what they add up: f32, or int8 with a scale for each 32 "
          "values, which rounds (default: f32)")};
  cl::opt<Phase> stopAfter{
      "stop-after", cl::init(Phase::Assemble), cl::cat(category),
      cl::desc("Print the IR after this phase instead of an artifact:"),
      cl::values(clEnumValN(Phase::Import, "import", "functions of nn ops"),
                 clEnumValN(Phase::Quantize, "quantize", "the same, with formats of weights, activations and caches"),
                 clEnumValN(Phase::Partition, "partition", "the same, with the device of each op, caches laid out"),
                 clEnumValN(Phase::Fuse, "fuse", "a group for each kernel-to-be"),
                 clEnumValN(Phase::Lower, "lower", "kernels and host programs"),
                 clEnumValN(Phase::Target, "target", "kernels as objects, one for each device and variant"),
                 clEnumValN(Phase::Assemble, "assemble", "the artifact (default)"))};
  cl::opt<Phase> startFrom{
      "start-from", cl::init(Phase::Quantize), cl::cat(category),
      cl::desc("The phase that MODEL enters (default: quantize for IR, import for all other models):"),
      cl::values(clEnumValN(Phase::Import, "import", kept(importer::listImported())),
                 clEnumValN(Phase::Quantize, "quantize", "IR as --stop-after=import prints it"),
                 clEnumValN(Phase::Partition, "partition", "IR as --stop-after=quantize prints it"),
                 clEnumValN(Phase::Fuse, "fuse", "IR as --stop-after=partition prints it"),
                 clEnumValN(Phase::Lower, "lower", "IR as --stop-after=fuse prints it"),
                 clEnumValN(Phase::Target, "target", "IR as --stop-after=lower prints it"),
                 clEnumValN(Phase::Assemble, "assemble", "IR as --stop-after=target writes it to an .mlirbc"))};
  cl::opt<bool> elideResourceStrings{
      "elide-resource-strings", cl::init(true), cl::cat(category),
      cl::desc("Leave the bytes of objects out of IR that is written as text (default); .mlirbc always has them")};
  cl::opt<std::string> dumpAfterEach{"dump-after-each", cl::value_desc("directory"), cl::cat(category),
                                     cl::desc("Write the IR after each pass to numbered files in this directory")};
  cl::opt<std::string> explain{"explain", cl::value_desc("file.json"), cl::cat(category),
                               cl::desc("Write what was fused and why, with the cost of the alternatives")};
  cl::list<std::string> flip{"flip", cl::value_desc("decision"), cl::cat(category),
                             cl::desc("Take a decision of --explain the other way, by its id; may be repeated")};
  cl::opt<std::string> archives{"archives", cl::value_desc("directory"), cl::cat(category),
                                cl::desc("Where the weight archives that IR names are (default: the folder of MODEL)")};
  cl::opt<unsigned> threads{"threads", cl::init(0), cl::value_desc("N"), cl::cat(category),
                            cl::desc("Threads to compile with (default: all that this process may use)")};
  cl::opt<std::string> runner{
      "runner", cl::value_desc("file"), cl::cat(category),
      cl::desc("intarsia-run of the target, for --emit=exe (default: the one beside this program)")};
  cl::opt<bool> verbose{"verbose", cl::cat(category),
                        cl::desc("Print each step with its time, also when not on a terminal")};
  cl::alias verboseShort{"v", cl::aliasopt(verbose), cl::desc("Alias for --verbose"), cl::cat(category)};
};

std::string runnerBesideThis(const char *program) {
  static int anchor;
  llvm::SmallString<128> path(llvm::sys::path::parent_path(llvm::sys::fs::getMainExecutable(program, &anchor)));
  llvm::sys::path::append(path, "intarsia-run");
  return path.str().str();
}

/// Ends the program with a message if the text is none of --partition.
void setPartition(const std::string &text, PartitionOptions &options) {
  if (options.world < 2) {
    llvm::errs() << "error: --partition says how ranks share a model: give their number, as in --world=2\n";
    std::exit(1);
  }
  if (llvm::Error error = parsePartition(text, options)) {
    llvm::errs() << "error: " << toString(std::move(error)) << "\n";
    std::exit(1);
  }
}

/// True for the text int8 of --rank-messages, false for f32; ends the program with a message for others.
bool isInt8(const std::string &text) {
  if (text != "f32" && text != "int8") {
    llvm::errs() << "error: --rank-messages=" << text << ": f32 and int8 are possible\n";
    std::exit(1);
  }
  return text == "int8";
}

std::optional<DeployOptions> parseDeployOptions(const Flags &flags, CompileOptions common) {
  auto refuse = [](const llvm::Twine &why) {
    llvm::errs() << "error: " << why << "\n";
    std::exit(1);
  };
  if (flags.plan.empty()) {
    if (!flags.models.empty())
      refuse("--model says where a model of a plan is: give that with --plan");
    if (flags.model.empty() && !flags.listOps)
      refuse("there is no MODEL: give " + importer::listKindsBriefly() + "; --help shows more");
    return std::nullopt;
  }
  if (!flags.model.empty())
    refuse("--plan names its models: give --model=NAME=" + flags.model + " instead of '" + flags.model + "'");
  // What the plan decides must not be said twice.
  // A list's own operator& gives its values.
  auto refuseWithPlan = [&](const auto &...options) {
    for (const cl::Option *option : {static_cast<const cl::Option *>(std::addressof(options))...})
      if (option->getNumOccurrences())
        refuse("--" + option->ArgStr +
               " and --plan: the plan decides this, or makes artifacts of its own kind; leave "
               "one of the two out");
  };
  refuseWithPlan(flags.targets, flags.quantize, flags.world, flags.partition, flags.rankSpeeds, flags.rankMessages,
                 flags.placements, flags.gpuMemory, flags.matmulPrecision, flags.stopAfter, flags.startFrom, flags.emit,
                 flags.shapes, flags.values, flags.weightsDirectory, flags.listOps, flags.json);
  DeployOptions options;
  options.plan = flags.plan;
  options.output = flags.output;
  options.common = std::move(common);
  for (const std::string &text : flags.models) {
    auto [name, directory] = llvm::StringRef(text).split('=');
    if (name.empty() || directory.empty())
      refuse("--model=" + text + ": give the name that the plan has for it and its directory, as in --model=" +
             (name.empty() ? "llama" : name) + "=./Llama");
    if (!options.models.try_emplace(name.str(), directory.str()).second)
      refuse("--model=" + name + " is given twice");
  }
  return options;
}

/// Ends the program with a message if a flag is given that --list-ops does not use.
void checkListOps(Flags &flags) {
  bool hasModel = !flags.model.empty();
  for (auto &[name, option] : cl::getRegisteredOptions()) {
    bool isOurs = llvm::is_contained(option->Categories, &flags.category);
    bool isUsed = option == &flags.listOps || option == &flags.json ||
                  (hasModel && (option == std::addressof(flags.shapes) || option == std::addressof(flags.values) ||
                                option == &flags.weightsDirectory));
    if (!isOurs || isUsed || option->getNumOccurrences() == 0)
      continue;
    llvm::errs() << "error: --list-ops " << (hasModel ? "" : "without MODEL ") << "does not use "
                 << (name.size() == 1 ? "-" : "--") << name << ": leave one of the two out\n";
    std::exit(1);
  }
}

} // namespace

Request parseOptions(int argc, char **argv) {
  cl::ResetCommandLineParser();
  static Flags flags;
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "intarsia-compile " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  if (std::string problem = flagWithoutValue(argc, argv); !problem.empty()) {
    llvm::errs() << "error: " << problem << "\n";
    std::exit(1);
  }
  cl::ParseCommandLineOptions(
      argc, argv,
      "Compiles a model with its weights into one artifact that runs without Python or a compiler.\n\n"
      "  intarsia-compile ./all-MiniLM-L6-v2 -o minilm.itx\n"
      "  intarsia-run minilm.itx --list\n\n"
      "To look inside, stop after a phase and go on from there:\n\n"
      "  intarsia-compile ./all-MiniLM-L6-v2 --stop-after=fuse -o fused.mlir\n"
      "  intarsia-compile fused.mlir --start-from=lower --archives=./all-MiniLM-L6-v2 -o minilm.itx\n");
  if (!flags.calibration.empty() && flags.quantize != "auto") {
    llvm::errs() << "error: --calibration is for a step of its own: `intarsia quantize " << flags.model
                 << " -o DIRECTORY --quantize=" << (flags.quantize == "none" ? "int4" : flags.quantize.getValue())
                 << " --calibration=" << flags.calibration
                 << "` writes a model directory, and this program compiles that for any target\n";
    std::exit(1);
  }
  if (flags.listOps)
    checkListOps(flags);
  CompileOptions options;
  options.model = flags.model;
  options.output = flags.output;
  options.stopAfter = flags.stopAfter;
  if (flags.startFrom.getNumOccurrences())
    options.startFrom = flags.startFrom;
  options.dumpDirectory = flags.dumpAfterEach;
  options.explainFile = flags.explain;
  options.partition.placements.assign(flags.placements.begin(), flags.placements.end());
  options.partition.gpuMemory = flags.gpuMemory;
  options.partition.world = flags.world;
  options.partition.isGiven = !flags.partition.empty();
  if (options.partition.isGiven)
    setPartition(flags.partition, options.partition);
  options.partition.rankMemory = flags.rankMemory;
  options.partition.rankLoad = flags.rankLoad;
  options.partition.figures = flags.rankFigures;
  options.partition.hosts.assign(flags.rankHosts.begin(), flags.rankHosts.end());
  options.partition.network = flags.rankNetwork;
  options.partition.speeds.assign(flags.rankSpeeds.begin(), flags.rankSpeeds.end());
  options.partition.roundsMessages = isInt8(flags.rankMessages);
  options.flip.assign(flags.flip.begin(), flags.flip.end());
  if (flags.context.getNumOccurrences())
    options.import.context = flags.context;
  options.quantize.format = flags.limits.empty() ? flags.quantize.getValue() : "auto";
  options.quantize.activations = flags.quantizeActivations;
  options.quantize.attention = flags.quantizeAttention;
  options.quantize.matmulPrecision = flags.matmulPrecision;
  options.quantize.parts.assign(flags.quantizeParts.begin(), flags.quantizeParts.end());
  options.quantize.caches.assign(flags.caches.begin(), flags.caches.end());
  options.quantize.segmentArguments = flags.segmentArguments;
  options.precisionFile = flags.precision;
  if (flags.segment.getNumOccurrences())
    options.quantize.segment = flags.segment;
  options.quantize.segmentWeights = flags.segmentWeights;
  options.archiveDirectory = flags.archives;
  if (!flags.targets.empty())
    options.targets.assign(flags.targets.begin(), flags.targets.end());
  options.requireCubin = flags.requireCubin;
  options.emit = flags.emit;
  options.embedWeights = flags.embedWeights;
  options.threads = flags.threads;
  options.runner = flags.runner.empty() ? runnerBesideThis(argv[0]) : flags.runner;
  options.verbose = flags.verbose;
  options.elideResourceStrings = flags.elideResourceStrings;
  options.import.shapes.assign(flags.shapes.begin(), flags.shapes.end());
  options.import.values.assign(flags.values.begin(), flags.values.end());
  options.weightsDirectory = flags.weightsDirectory;
  options.reportFile = flags.json;
  std::optional<DeployOptions> deployed = parseDeployOptions(flags, options);
  return {std::move(options), std::move(deployed), flags.listOps};
}

} // namespace intarsia
