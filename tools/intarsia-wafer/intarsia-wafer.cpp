//===- intarsia-wafer.cpp - Compiles distributed products for a wafer, runs them in a simulator and times them ----===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Arrays.h"
#include "Picture.h"
#include "Report.h"
#include "intarsia/Version.h"
#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Runtime/Wafer/MemoryWatch.h"
#include "lib/Support/Arguments.h"
#include "lib/Target/Wafer/Emit.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "tools/Limits.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace intarsia;
namespace cl = llvm::cl;

namespace {

/// The flags, made during parsing as in intarsia-quantize.
struct Flags {
  cl::OptionCategory category{"Options of intarsia-wafer"};
  cl::opt<std::string> file{cl::Positional, cl::Required, cl::value_desc("FILE"), cl::cat(category),
                            cl::desc("<.mlir with functions of wafer.dist_* ops, or wafer.programs>")};
  cl::opt<std::string> target{"target", cl::init("wse-2"), cl::value_desc("name"), cl::cat(category),
                              cl::desc("A wafer of the catalogue (wse-2, wse-3), or a .yaml file of the same form")};
  cl::list<std::string> inputs{"input", cl::value_desc("@file.npy"), cl::cat(category),
                               cl::desc("An input, in the order of arguments: float16 or float32; runs the program")};
  cl::list<std::string> outputs{"output", cl::value_desc("@file.npy"), cl::cat(category),
                                cl::desc("Write an output, in the order of results, as float32")};
  cl::opt<int64_t> tokens{"tokens", cl::init(0), cl::value_desc("N"), cl::cat(category),
                          cl::desc("Tokens that the caches among the inputs have, before an append")};
  cl::opt<std::string> emit{"emit", cl::value_desc("file.mlir"), cl::cat(category),
                            cl::desc("Write the programs of cores as IR ('-' is standard output)")};
  cl::opt<bool> memory{
      "memory", cl::cat(category),
      cl::desc("Print which buffers lie where in a core, and when; with inputs, how much of it a run uses")};
  cl::opt<std::string> csl{"csl", cl::value_desc("folder"), cl::cat(category),
                           cl::desc("Write the programs as CSL, for Cerebras' SDK, into a new folder each")};
  cl::opt<std::string> metalium{
      "metalium", cl::value_desc("folder"), cl::cat(category),
      cl::desc("Write the programs as kernels of TT-Metalium, for Tenstorrent's grids, into a new folder each")};
  cl::opt<std::string> json{
      "json", cl::value_desc("file.json"), cl::cat(category),
      cl::desc("Write memory, colors and times of all programs as JSON ('-' is standard output)")};
  cl::opt<std::string> picture{
      "picture", cl::value_desc("file.svg"), cl::cat(category),
      cl::desc("Draw the load of links, waiting and arithmetic of all cores, and the memory of a core")};
};

[[noreturn]] void refuse(const llvm::Twine &what) {
  llvm::WithColor::error(llvm::errs(), "intarsia-wafer") << what << '\n';
  exit(1);
}

std::vector<std::string> filesOf(const cl::list<std::string> &flag) {
  std::vector<std::string> files;
  for (llvm::StringRef value : flag) {
    if (!value.consume_front("@") || value.empty())
      refuse("--" + flag.ArgStr + "=" + value + ": a file is expected, with an @ before its name");
    files.push_back(value.str());
  }
  return files;
}

void write(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (code)
    refuse(path + ": cannot be written: " + code.message());
  print(out);
}

/// Writes the sources of a program into the folder of its name.
void writeSources(llvm::StringRef folder, const wafer::Program &program,
                  llvm::Expected<std::vector<wafer::EmittedFile>> files) {
  if (!files)
    refuse(llvm::toString(files.takeError()));
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, program.name);
  if (std::error_code code = llvm::sys::fs::create_directories(path, /*IgnoreExisting=*/false))
    refuse(path + ": cannot be made, sources are written into a new folder: " + code.message());
  for (const wafer::EmittedFile &file : *files)
    write((path + "/" + file.name).str(), [&](llvm::raw_ostream &out) { out << file.text; });
}

/// Returns the verified programs of a file; errors have been printed if it is null.
mlir::OwningOpRef<mlir::ModuleOp> compile(mlir::MLIRContext &context, llvm::SourceMgr &sources, const Flags &flags) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(flags.file);
  if (!buffer)
    refuse(flags.file + ": cannot be read: " + buffer.getError().message());
  auto module = parseMlir(std::move(*buffer), sources, mlir::ParserConfig(&context));
  if (!module)
    refuse(llvm::toString(module.takeError()));
  mlir::PassManager manager(&context);
  buildWaferPipeline(manager, flags.target);
  if (!*module || mlir::failed(manager.run(**module)))
    return nullptr;
  return std::move(*module);
}

/// Runs a program; returns what it had in use if that is `watched`.
std::optional<wafer::MemoryUse> runProgram(const wafer::Program &program, const std::vector<std::string> &inputs,
                                           const std::vector<std::string> &outputs, int64_t tokens, bool watched) {
  auto matrices = readInputs(program, inputs);
  if (!matrices)
    refuse(llvm::toString(matrices.takeError()));
  std::vector<wafer::Matrix> results;
  wafer::MemoryUse use;
  std::string problem = watched ? wafer::runWatched(program, *matrices, results, tokens, use)
                                : wafer::run(program, *matrices, results, tokens);
  if (!problem.empty())
    refuse("@" + program.name + ": " + problem);
  if (outputs.size() > results.size())
    refuse("program @" + program.name + " has " + llvm::Twine(results.size()) + " outputs, but there are " +
           llvm::Twine(outputs.size()) + " of --output");
  for (size_t i = 0; i < outputs.size(); ++i)
    if (llvm::Error error = writeOutput(results[i], outputs[i]))
      refuse(llvm::toString(std::move(error)));
  return watched ? std::optional(use) : std::nullopt;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  explainLimits();
  cl::ResetCommandLineParser();
  static Flags flags;
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "intarsia-wafer " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  if (std::string problem = flagWithoutValue(argc, argv); !problem.empty())
    refuse(problem);
  cl::ParseCommandLineOptions(argc, argv,
                              "Compiles distributed products for a wafer, checks them, times them and, with inputs, "
                              "runs them in a simulator.\n\n"
                              "  intarsia-wafer gemm.mlir\n"
                              "  intarsia-wafer gemm.mlir --input=@a.npy --input=@b.npy --output=@c.npy\n");
  mlir::DialectRegistry registry;
  registry.insert<wafer::WaferDialect, mlir::func::FuncDialect, mlir::memref::MemRefDialect>();
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = compile(context, sources, flags);
  if (!module)
    return 1;
  if (!flags.emit.empty())
    write(flags.emit, [&](llvm::raw_ostream &out) { module->print(out); });
  std::vector<std::string> inputs = filesOf(flags.inputs), outputs = filesOf(flags.outputs);
  if (inputs.empty() && !outputs.empty())
    refuse("--output needs the inputs of the program: give --input=@file.npy for each");
  if (flags.tokens < 0)
    refuse("--tokens=" + llvm::Twine(flags.tokens) + ": must not be negative");
  llvm::json::Array reports;
  std::vector<Pictured> pictured;
  for (wafer::ProgramOp op : module->getOps<wafer::ProgramOp>()) {
    wafer::Program program = wafer::extractProgram(op);
    wafer::TimingOfCores cores;
    wafer::Timing timing = wafer::time(program, &cores);
    reports.push_back(describe(program, timing));
    if (flags.emit != "-" && flags.json != "-")
      print(llvm::outs(), program, timing);
    if (flags.memory)
      printMemory(llvm::outs(), program);
    if (!flags.csl.empty())
      writeSources(flags.csl, program, wafer::emitCsl(program));
    if (!flags.metalium.empty())
      writeSources(flags.metalium, program, wafer::emitMetalium(program));
    if (!inputs.empty())
      if (auto use = runProgram(program, inputs, outputs, flags.tokens, flags.memory)) {
        (*reports.back().getAsObject())["bytes_in_use"] = use->bytes;
        llvm::outs() << llvm::formatv("@{0}: in the run core ({1}, {2}) had most in use at one time, {3} bytes\n",
                                      program.name, use->core % program.columns, use->core / program.columns,
                                      use->bytes);
      }
    if (!flags.picture.empty())
      pictured.push_back({std::move(program), timing, std::move(cores)});
  }
  if (!flags.picture.empty())
    write(flags.picture, [&](llvm::raw_ostream &out) { drawPicture(out, pictured); });
  if (!flags.json.empty())
    write(flags.json,
          [&](llvm::raw_ostream &out) { out << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(reports))); });
  return 0;
}
