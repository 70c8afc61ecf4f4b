//===- Compiler.cpp - From a model to an artifact, phase by phase -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Compiler/Compiler.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/DeviceConfigurations.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Fuse/Fuse.h"
#include "intarsia/Import/Import.h"
#include "intarsia/Legalize/Legalize.h"
#include "intarsia/Lower/Lower.h"
#include "intarsia/Target/Target.h"
#include "intarsia/Weights/CheckWeights.h"
#include "lib/Compiler/DumpAfterEach.h"
#include "lib/Compiler/ExplainFunctions.h"
#include "lib/Compiler/Flags.h"
#include "lib/Compiler/ListOps.h"
#include "lib/Compiler/Precision.h"
#include "lib/Compiler/Progress.h"
#include "lib/Compiler/QuantizeDefaults.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/MachineLimits.h"
#include "lib/Support/WeightsDirectory.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ThreadPool.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia {
namespace {

void printModelDiagnostic(Diagnostic &diagnostic) {
  constexpr llvm::StringLiteral severities[] = {"note", "warning", "error", "remark"};
  llvm::errs() << severities[unsigned(diagnostic.getSeverity())] << ": ";
  if (auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>())
    llvm::errs() << name.getName().getValue() << ": ";
  llvm::errs() << diagnostic << '\n';
}

/// One compilation.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), weightsDirectory(options.weightsDirectory),
        progress(options.verbose || (llvm::sys::Process::StandardErrIsDisplayed() && options.output != "-")),
        dumper(options.dumpDirectory, options.elideResourceStrings) {}

  llvm::Error run();
  /// Imports and quantizes a model and writes it as a model directory.
  llvm::Expected<std::vector<QuantizedMatrix>> quantizeModel(QuantizedModelOptions written);
  /// Imports a model, and nothing more.
  llvm::Error import();
  mlir::ModuleOp getModule() { return *module; }

private:
  bool stopsAt(Phase phase) const { return options.stopAfter == phase; }
  bool isDirectory() const { return llvm::sys::fs::is_directory(options.model); }
  bool dumps() const { return !options.dumpDirectory.empty(); }
  std::string archiveDirectory() const;
  std::string defaultOutput() const;
  AssembleOptions assembleOptions() const;
  std::vector<std::string> writtenFiles() const;
  llvm::Error createTargets();
  llvm::Error declareTargets();
  llvm::Error checkOutputs();
  llvm::Error checkAssemblers() const;
  llvm::Error checkNotReplaced(StringRef input) const;
  llvm::Error checkNoneReplaced() const;
  llvm::Error checkModel();
  llvm::Error checkRequest();
  void makeContext();
  llvm::Error load();
  llvm::Error legalize();
  llvm::Error runPhase(Phase phase);
  llvm::Error runAll();
  llvm::Error verifyInput();
  llvm::Error run(PassManager &manager, Phase phase);
  llvm::Error writeArtifact(WeightPacking packing);

  const CompileOptions &options;
  WeightsDirectory weightsDirectory; ///< holds for what this compilation reads
  FileVersions inputs;               ///< files of the model, which must not change before the result is there
  compiler::Progress progress;
  compiler::Dumper dumper;
  std::string output;
  unsigned threads = 1;
  std::vector<std::string> targetNames; ///< --target, or what the devices of IR say
  std::vector<std::string> hostTriples; ///< of the artifacts
  Phase firstPhase = Phase::Quantize;
  std::unique_ptr<llvm::DefaultThreadPool> pool;
  std::unique_ptr<MLIRContext> context;
  llvm::SourceMgr sources;
  std::unique_ptr<SourceMgrDiagnosticHandler> diagnostics;
  std::unique_ptr<ScopedDiagnosticHandler> modelDiagnostics;
  const importer::Importer *importer = nullptr; ///< of the model
  OwningOpRef<ModuleOp> module;
  std::optional<PrecisionFile> precision; ///< formats of tensors and caches
  bool isImportTried = false;
  compiler::ModelReport report; ///< for --json
};

std::string Compilation::archiveDirectory() const {
  if (!options.archiveDirectory.empty())
    return options.archiveDirectory;
  if (isDirectory())
    return options.model;
  StringRef folder = llvm::sys::path::parent_path(options.model);
  return folder.empty() ? "." : folder.str();
}

std::string Compilation::defaultOutput() const {
  SmallString<128> path(options.model);
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  while (path.ends_with("/"))
    path.pop_back();
  StringRef name = llvm::sys::path::filename(path);
  std::string stem = (isDirectory() ? name : llvm::sys::path::stem(name)).str();
  switch (options.emit) {
  case Emit::Exe:
    return stem + ".run"; // the bare stem is the name of the model's directory
  case Emit::Obj:
    return stem + ".o";
  default:
    return stem + ".itx";
  }
}

AssembleOptions Compilation::assembleOptions() const {
  AssembleOptions result;
  result.output = output;
  result.archiveDirectory = archiveDirectory();
  result.hostTriples = hostTriples;
  result.flags.push_back("--target=" + llvm::join(targetNames, ","));
  llvm::append_range(result.flags, compiler::flagsOf(options));
  result.emit = options.emit;
  result.embedWeights = options.embedWeights;
  result.threads = threads;
  result.runner = options.runner;
  return result;
}

std::vector<std::string> Compilation::writtenFiles() const {
  std::vector<std::string> files;
  if (stopsAt(Phase::Assemble))
    files = outputFiles(assembleOptions());
  else if (output != "-")
    files.push_back(output);
  if (!options.explainFile.empty())
    files.push_back(options.explainFile);
  if (!options.reportFile.empty())
    files.push_back(options.reportFile);
  return files;
}

llvm::Error Compilation::createTargets() {
  auto made = target::createCompilers(targetNames);
  if (!made)
    return made.takeError();
  hostTriples.clear();
  for (const target::ArtifactCompilers &artifact : *made)
    hostTriples.push_back(artifact.hostTriple);
  return llvm::Error::success();
}

/// With --require-cubin, checks that the programs are there which make machine code for the targets.
llvm::Error Compilation::checkAssemblers() const {
  if (!options.requireCubin)
    return llvm::Error::success();
  bool any = false;
  for (StringRef name : targetNames) {
    StringRef assembler = target::Target::find(name.split(':').first)->assembler();
    if (assembler.empty())
      continue;
    any = true;
    if (!llvm::sys::findProgramByName(assembler))
      return createStringError("--require-cubin: target '" + name + "' needs '" + assembler +
                               "', which is in none of the folders of PATH (" +
                               llvm::sys::Process::GetEnv("PATH").value_or("") +
                               "): install the CUDA toolkit or add its folder 'bin' to PATH; without the flag the "
                               "GPU's driver makes machine code when it loads the artifact");
  }
  return any ? llvm::Error::success()
             : createStringError("--require-cubin is about the targets cuda:…, and there is none among " +
                                 llvm::join(targetNames, ", "));
}

llvm::Error Compilation::checkOutputs() {
  targetNames = options.targets.empty() ? std::vector<std::string>{"cpu"} : options.targets;
  if (llvm::Error error = createTargets())
    return error;
  // IR may name other targets.
  if (!options.targets.empty())
    if (llvm::Error error = checkAssemblers())
      return error;
  output = options.output;
  if (output.empty())
    output = stopsAt(Phase::Assemble) ? defaultOutput() : "-";
  if (stopsAt(Phase::Assemble))
    if (llvm::Error error = checkOutput(assembleOptions()))
      return error;
  std::vector<std::string> files = writtenFiles();
  if (options.reportFile == "-" && output == "-")
    return createStringError("-o - and --json=-: IR and the report would both go to standard output; give one of them "
                             "a file");
  for (auto [number, file] : llvm::enumerate(files)) {
    if (file == "-")
      continue; // standard output
    if (Status status = checkWritable(file); !status.ok())
      return createStringError(status.message());
    for (const std::string &other : llvm::drop_begin(files, number + 1))
      if (isSameFile(file, other))
        return createStringError(other + ": two results would be written to this file; choose another name for one");
  }
  return llvm::Error::success();
}

static llvm::Error refuseToReplace(const std::string &file) {
  return createStringError(file + ": is read for this compilation, whose result would replace it; choose another name "
                                  "for the result");
}

llvm::Error Compilation::checkNotReplaced(StringRef input) const {
  for (const std::string &file : writtenFiles())
    if (llvm::sys::fs::exists(input) && isSameFile(file, input.str()))
      return refuseToReplace(file);
  return llvm::Error::success();
}

/// Checks that no result would replace a file that was read, such as data beside the model.
llvm::Error Compilation::checkNoneReplaced() const {
  for (const std::string &file : writtenFiles())
    if (FileVersions::isNoted(file))
      return refuseToReplace(file);
  return llvm::Error::success();
}

llvm::Error Compilation::checkModel() {
  if (std::error_code code = llvm::sys::fs::access(options.model, llvm::sys::fs::AccessMode::Exist))
    return createStringError(options.model + (code == std::errc::no_such_file_or_directory
                                                  ? ": there is no such file or directory"
                                                  : ": cannot be read: " + code.message()));
  bool needsIR = options.startFrom && *options.startFrom != Phase::Import;
  auto isNoIR = [&](StringRef what) {
    return createStringError("--start-from=" + compiler::phaseNames[unsigned(*options.startFrom)] + " needs IR, '" +
                             options.model + "' is " + what);
  };
  if (needsIR && isDirectory())
    return isNoIR("a directory");
  llvm::Expected<const importer::Importer *> found = importer::findImporter(options.model);
  if (!found)
    return found.takeError();
  importer = *found;
  if (!importer->knownOps)
    if (llvm::Error error = compiler::checkGraphFlags(options, importer->titleWithArticle()))
      return error;
  if (!importer->isIR) {
    if (needsIR)
      return isNoIR(importer->titleWithArticle());
    firstPhase = Phase::Import;
    for (StringRef file : importer->filesOf(options.model))
      if (llvm::Error error = checkNotReplaced(file))
        return error;
    for (StringRef file : compiler::filesOfValues(options))
      if (llvm::Error error = checkNotReplaced(file))
        return error;
    return llvm::Error::success();
  }
  if (options.startFrom == Phase::Import)
    return createStringError("--start-from=import needs " + importer::listImported() + ", '" + options.model +
                             "' is IR");
  firstPhase = options.startFrom.value_or(stopsAt(Phase::Import) ? Phase::Import : Phase::Quantize);
  StringRef folder = llvm::sys::path::parent_path(options.model);
  bool amongDumps = dumps() && llvm::sys::fs::equivalent(folder.empty() ? "." : folder, options.dumpDirectory);
  if (amongDumps && compiler::Dumper::isDump(options.model))
    return createStringError("--dump-after-each=" + options.dumpDirectory + ": '" + options.model +
                             "' lies there, and new dumps would replace old ones; give another directory");
  return checkNotReplaced(options.model);
}

/// Checks everything that can fail before the work begins, the output path first.
llvm::Error Compilation::checkRequest() {
  if (llvm::Error error = checkOutputs())
    return error;
  if (llvm::Error error = checkModel())
    return error;
  if (llvm::Error error = compiler::checkFlags(options, firstPhase))
    return error;
  if (dumps())
    if (std::error_code code = llvm::sys::fs::create_directories(options.dumpDirectory))
      return createStringError(options.dumpDirectory + ": cannot be made: " + code.message());
  return llvm::Error::success();
}

void Compilation::makeContext() {
  threads = options.threads ? options.threads : unsigned(usableThreads());
  DialectRegistry registry;
  registerCompilerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Dumps need a module that no other thread changes.
  if (threads > 1 && !dumps()) {
    pool = std::make_unique<llvm::DefaultThreadPool>(llvm::hardware_concurrency(threads));
    context->setThreadPool(*pool);
  }
  // Diagnostics show the line of a file, or the location in a model.
  context->printOpOnDiagnostic(false);
  diagnostics = std::make_unique<SourceMgrDiagnosticHandler>(sources, context.get());
  modelDiagnostics = std::make_unique<ScopedDiagnosticHandler>(context.get(), [](Diagnostic &diagnostic) {
    if (diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      return failure();
    printModelDiagnostic(diagnostic);
    for (Diagnostic &note : diagnostic.getNotes())
      printModelDiagnostic(note);
    return success();
  });
}

/// Brings IR of a user into the ops that phases know.
llvm::Error Compilation::legalize() {
  PassManager manager(context.get());
  buildLegalizePipeline(manager, /*isOfPhase=*/firstPhase > Phase::Quantize);
  return succeeded(manager.run(*module)) ? llvm::Error::success()
                                         : createStringError(options.model + ": has functions that cannot be compiled");
}

llvm::Error Compilation::load() {
  progress.begin("import");
  isImportTried = true;
  bool reports = !options.reportFile.empty();
  auto imported =
      importer->import({options.model, options.import, context.get(), sources, reports ? &report.import : nullptr});
  report.isImported = bool(imported);
  if (llvm::Error error = checkNoneReplaced())
    return imported ? std::move(error) : llvm::joinErrors(imported.takeError(), std::move(error));
  if (!imported)
    return imported.takeError();
  module = std::move(*imported);
  if (!module)
    return createStringError(options.model + ": cannot be imported");
  if (importer->isIR || importer->needsLegalize)
    if (llvm::Error error = legalize())
      return error;
  compiler::stateForm(*module);
  if (llvm::Error error = declareTargets())
    return error;
  for (auto archive : module->getOps<nn::ArchiveOp>())
    if (llvm::Error error = checkNotReplaced(archiveDirectory() + "/" + archive.getFile().str()))
      return error;
  if (auto files = (*module)->getAttrOfType<ArrayAttr>("nn.files"))
    for (StringRef file : files.getAsValueRange<StringAttr>())
      if (llvm::Error error = checkNotReplaced(archiveDirectory() + "/" + file.str()))
        return error;
  if (stopsAt(Phase::Assemble))
    if (llvm::Error error = checkWeights(*module, archiveDirectory()))
      return error;
  // A segment that calibration runs is of the model as it is, unless its flags name a file.
  bool readsPrecision = !options.quantize.segment || !options.precisionFile.empty();
  if (firstPhase <= Phase::Quantize && options.stopAfter >= Phase::Quantize && readsPrecision) {
    auto found = compiler::findPrecision(*module, archiveDirectory(), options.precisionFile, options.quantize);
    if (!found)
      return found.takeError();
    precision = std::move(*found);
  }
  if (dumps())
    dumper.dump(*module, compiler::phaseNames[0]);
  return llvm::Error::success();
}

/// IR keeps the devices that it was made for unless --target names others.
llvm::Error Compilation::declareTargets() {
  std::vector<std::string> declared = target::targetSpecs(*module);
  if (options.targets.empty() && !declared.empty()) {
    targetNames = declared;
    if (llvm::Error error = createTargets())
      return error;
    if (llvm::Error error = checkAssemblers())
      return error;
    // Kernels that are compiled say what for.
    if (std::vector<target::ArtifactObjects> artifacts = target::objectsOf(*module); !artifacts.empty()) {
      hostTriples.clear();
      for (const target::ArtifactObjects &artifact : artifacts)
        hostTriples.push_back(artifact.hostTriple);
    }
    return stopsAt(Phase::Assemble) ? checkOutput(assembleOptions()) : llvm::Error::success();
  }
  if (llvm::Error error = checkAssemblers())
    return error;
  return succeeded(target::declareDevices(*module, targetNames)) ? llvm::Error::success()
                                                                 : createStringError("the targets cannot be used");
}

llvm::Error Compilation::runPhase(Phase phase) {
  progress.begin(compiler::phaseNames[unsigned(phase)]);
  PassManager manager(context.get());
  bool hasConfigurations = false;
  if (phase == Phase::Quantize) {
    QuantizeOptions chosen = compiler::withPrecision(options.quantize, precision);
    llvm::Expected<QuantizeOptions> complete = compiler::withDefaults(std::move(chosen), targetNames, *module);
    if (!complete)
      return complete.takeError();
    buildQuantizePipeline(manager, *complete);
  } else if (phase == Phase::Partition) {
    hasConfigurations = (*module)->hasAttr(rt::deviceConfigurationsAttr);
    PartitionOptions partition = options.partition;
    report.devices = followDevices(*module, partition);
    buildPartitionPipeline(manager, partition);
  } else if (phase == Phase::Fuse) {
    FuseOptions fuse;
    fuse.explainFile = options.explainFile;
    fuse.flip = options.flip;
    buildFusePipeline(manager, fuse);
  } else if (phase == Phase::Lower) {
    buildLowerPipeline(manager);
  } else {
    buildTargetPipeline(manager);
  }
  if (llvm::Error error = run(manager, phase)) {
    if (phase == Phase::Partition)
      report.devices.clear(); // nothing is known of them
    return error;
  }
  if (phase == Phase::Partition && hasConfigurations)
    finishDevices(*module, report.devices);
  return phase == Phase::Quantize ? compiler::checkAttention(options.quantize, *module) : llvm::Error::success();
}

/// Verifies lowered IR from a file like IR that this process lowered.
llvm::Error Compilation::verifyInput() {
  PassManager manager(context.get());
  buildLowerVerification(manager);
  if (firstPhase == Phase::Assemble)
    buildTargetVerification(manager);
  return run(manager, firstPhase);
}

llvm::Error Compilation::run(PassManager &manager, Phase phase) {
  if (dumps())
    manager.addInstrumentation(dumper.instrumentation());
  if (failed(manager.run(*module)))
    return createStringError("phase '" + compiler::phaseNames[unsigned(phase)] + "' failed");
  return dumper.problem().empty() ? llvm::Error::success() : createStringError(dumper.problem());
}

llvm::Error Compilation::writeArtifact(WeightPacking packing) {
  if (llvm::Error error =
          assembleModule(*module, assembleOptions(), std::move(packing), [&](StringRef step) { progress.begin(step); }))
    return error;
  uint64_t bytes = 0;
  llvm::sys::fs::file_size(output, bytes);
  char text[64];
  snprintf(text, sizeof(text), "%.1f KB in %.2f s", bytes / 1e3, progress.secondsSinceStart());
  progress.note("wrote " + output + ": " + text);
  return llvm::Error::success();
}

llvm::Error Compilation::run() {
  if (llvm::Error error = checkRequest())
    return error;
  makeContext();
  llvm::Error error = runAll();
  if (options.reportFile.empty() || !isImportTried)
    return error;
  // The devices that the model names, and phases that fail, are known at the end.
  if (error) {
    std::string problem = toString(std::move(error));
    if (report.isImported || report.import.ops.empty()) // else the ops say why
      report.import.problem = problem;
    error = createStringError(problem);
  }
  return llvm::joinErrors(std::move(error), compiler::writeReport(report, options));
}

llvm::Error Compilation::runAll() {
  if (llvm::Error error = load())
    return error;
  for (Phase phase : {Phase::Quantize, Phase::Partition, Phase::Fuse, Phase::Lower})
    if (phase >= firstPhase && phase <= options.stopAfter)
      if (llvm::Error error = runPhase(phase))
        return error;
  if (firstPhase > Phase::Lower)
    if (llvm::Error error = verifyInput())
      return error;
  // Weights are packed while kernels are compiled.
  std::optional<WeightPacking> packing;
  if (stopsAt(Phase::Assemble)) {
    auto started = WeightPacking::start(*module, assembleOptions());
    if (!started)
      return started.takeError();
    packing.emplace(std::move(*started));
  }
  if (firstPhase <= Phase::Target && options.stopAfter >= Phase::Target)
    if (llvm::Error error = runPhase(Phase::Target))
      return error;
  if (!options.explainFile.empty() && options.stopAfter >= Phase::Target)
    if (llvm::Error error = compiler::explainFunctions(*module, options.explainFile))
      return error;
  if (packing)
    return writeArtifact(std::move(*packing));
  progress.end();
  if (Status status = FileVersions::check(); !status.ok())
    return createStringError(status.message());
  std::string problem;
  return compiler::writeIR(*module, output, options.elideResourceStrings, problem) ? llvm::Error::success()
                                                                                   : createStringError(problem);
}

llvm::Error Compilation::import() {
  targetNames = options.targets.empty() ? std::vector<std::string>{"cpu"} : options.targets;
  output = "-";
  if (llvm::Error error = createTargets())
    return error;
  if (llvm::Error error = checkModel())
    return error;
  if (llvm::Error error = compiler::checkFlags(options, firstPhase))
    return error;
  makeContext();
  return load();
}

llvm::Expected<std::vector<QuantizedMatrix>> Compilation::quantizeModel(QuantizedModelOptions written) {
  written.model = options.model;
  written.threads = options.threads ? options.threads : unsigned(usableThreads());
  if (llvm::Error error = checkQuantizedModel(written))
    return std::move(error);
  if (llvm::Error error = import())
    return std::move(error);
  written.precision = precision;
  PrecisionFile rest = compiler::takeRest(*module, precision);
  if (llvm::Error error = runPhase(Phase::Quantize))
    return std::move(error);
  if (!precision)
    rest.tensors = widenedEntries(*module);
  auto matrices = writeQuantizedModel(*module, written, [&](StringRef step) { progress.begin(step); });
  progress.end();
  if (matrices && written.linears.empty())
    if (llvm::Error error = compiler::writeRest(*module, std::move(rest), written.output))
      return std::move(error);
  return matrices;
}

} // namespace

void registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<nn::NnDialect, rt::RtDialect, arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                  LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect, shard::ShardDialect,
                  tensor::TensorDialect>();
  registerLegalizeDialects(registry);
  func::registerInlinerExtension(registry);
}

std::optional<std::vector<QuantizedMatrix>> quantizeModel(CompileOptions options, QuantizedModelOptions written) {
  options.stopAfter = Phase::Quantize;
  options.quantize.activations = "16"; // inputs are quantized when the result is compiled
  auto matrices = Compilation(options).quantizeModel(std::move(written));
  if (matrices)
    return std::move(*matrices);
  llvm::logAllUnhandledErrors(matrices.takeError(), llvm::errs(), "error: ");
  return std::nullopt;
}

bool inspectModel(CompileOptions options, llvm::function_ref<llvm::Error(ModuleOp)> use) {
  options.stopAfter = Phase::Import;
  Compilation compilation(options);
  llvm::Error error = compilation.import();
  if (!error)
    error = use(compilation.getModule());
  if (!error)
    return true;
  llvm::logAllUnhandledErrors(std::move(error), llvm::errs(), "error: ");
  return false;
}

bool compile(const CompileOptions &options) {
  llvm::Error error = Compilation(options).run();
  if (!error)
    return true;
  llvm::logAllUnhandledErrors(std::move(error), llvm::errs(), "error: ");
  return false;
}

} // namespace intarsia
