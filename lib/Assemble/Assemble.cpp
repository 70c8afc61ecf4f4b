//===- Assemble.cpp - From objects and a host program to files ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Assemble/Assemble.h"

#include "intarsia/Target/Target.h"
#include "lib/Assemble/HostCode.h"
#include "lib/Assemble/Manifest.h"
#include "lib/Formats/ArtifactFormat.h"
#include "lib/Formats/ArtifactWriter.h"
#include "lib/Formats/Manifest.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/Hash.h"
#include "lib/Target/Host.h"
#include "lib/Target/Linker.h"
#include "lib/Weights/PackWeights.h"
#include "lib/Weights/TemporaryFiles.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <future>
#include <optional>
#include <sys/file.h>
#include <unistd.h>

using namespace mlir;
using llvm::createStringError;

namespace intarsia {

using namespace assemble;
using namespace weights;

namespace {

llvm::Error errorOf(const Status &status) {
  return status.ok() ? llvm::Error::success() : createStringError(status.message());
}

bool hasWeightsBeside(const AssembleOptions &options) { return !options.embedWeights && options.emit != Emit::Exe; }

/// Returns the path of the weights file: m.itx → m.safetensors, m.o → m.o.safetensors. Artifacts whose names differ in
/// more than .itx have different weights files.
std::string weightsPath(const AssembleOptions &options) {
  StringRef path = options.output;
  path.consume_back(".itx");
  return (path + ".safetensors").str();
}

/// Checks that weights beside the artifact replace no file that belongs to another artifact.
llvm::Error checkWeightsBeside(const AssembleOptions &options) {
  if (StringRef(options.output).ends_with(".safetensors"))
    return createStringError(options.output + ": is a name for weights; the artifact's name ends in .itx");
  std::string weights = weightsPath(options);
  if (!llvm::sys::fs::exists(weights))
    return errorOf(checkWritable(weights));
  std::optional<std::string> owner = ownerOfPackedArchive(weights);
  if (!owner)
    return createStringError(weights + ": exists and was not written by intarsia-compile, and the packed weights would "
                                       "replace it; choose another name for the output or use --embed-weights");
  std::string other = folderOf(weights) + "/" + *owner;
  if (!owner->empty() && llvm::sys::fs::exists(other) && !isSameFile(other, options.output))
    return createStringError(weights + ": holds the weights of '" + *owner + "', which those of '" +
                             llvm::sys::path::filename(options.output) +
                             "' would replace; choose another name for the output or use --embed-weights");
  return errorOf(checkWritable(weights));
}

/// Checks that the runner is for the artifact's host: another one could not load the module that it carries.
llvm::Error checkRunner(const AssembleOptions &options, StringRef hostTriple) {
  if (!llvm::sys::fs::exists(options.runner))
    return createStringError("--emit=exe needs the runner 'intarsia-run', which is not at '" + options.runner + "'");
  auto runner = llvm::object::ObjectFile::createObjectFile(options.runner);
  if (!runner)
    return createStringError(options.runner + ": is no program: " + llvm::toString(runner.takeError()));
  llvm::Triple triple(hostTriple);
  if (runner->getBinary()->getArch() == triple.getArch())
    return llvm::Error::success();
  return createStringError(options.runner + ": is a runner for " +
                           llvm::Triple::getArchTypeName(runner->getBinary()->getArch()) + ", the target is " +
                           triple.getArchName() + "; give intarsia-run of that machine with --runner");
}

/// Writes one artifact (or, for Emit::Obj, one object) to `path`.
llvm::Error writeModule(ModuleOp module, const target::ArtifactObjects &artifact, const AssembleOptions &options,
                        const PackedWeights &weights, const std::string &weightsFile, const std::string &path) {
  ModuleTables tables(module);
  std::string weightsName;
  if (hasWeightsBeside(options) && !weightsFile.empty())
    weightsName = llvm::sys::path::filename(weightsPath(options)).str();
  auto manifest = makeManifest(module, tables, artifact, options.flags, weights, weightsName);
  if (!manifest)
    return manifest.takeError();
  // A manifest that no runtime would load is a compilation error.
  Manifest parsed;
  if (Status status = parseManifest(*manifest, path, parsed); !status.ok())
    return errorOf(status);
  KernelCode code;
  code.variants = hostVariants(artifact).size();
  std::vector<target::CompiledObject> objects(1); // the first is the host's
  for (const target::DeviceObjects &device : artifact.devices) {
    code.isHostCode.push_back(device.target->runsHostCode());
    for (rt::ObjectOp object : device.objects) {
      SmallVector<ArrayRef<char>> pieces = *object.getBytes();
      if (!code.isHostCode.back())
        code.objects.push_back(pieces.front());
      else
        for (ArrayRef<char> piece : pieces)
          objects.push_back({object.getSymName().str(), {piece.begin(), piece.end()}});
    }
  }
  auto machine = target::makeHostMachine(artifact.hostTriple, "", llvm::FPOpFusion::Fast);
  auto host = compileHostCode(module, tables, code, *manifest, *machine);
  if (!host)
    return host.takeError();
  objects.front() = {"host", std::move(*host)};
  auto linked = target::link(objects, target::elfEmulation(artifact.hostTriple),
                             /*relocatable=*/options.emit == Emit::Obj);
  if (!linked)
    return linked.takeError();
  if (options.emit != Emit::Obj)
    return errorOf(
        writeArtifact(path, linked->data(), linked->size(), hasWeightsBeside(options) ? std::string() : weightsFile));
  std::unique_ptr<OutputFile> file;
  Status status = OutputFile::create(path, file);
  if (status.ok())
    status = file->write(linked->data(), linked->size());
  return errorOf(status.ok() ? file->close() : status);
}

/// Removes weights of this artifact whose name still contains their hash: a compilation ended between two renames.
void removeWaitingWeights(const AssembleOptions &options) {
  std::string weights = weightsPath(options);
  std::error_code code;
  for (llvm::sys::fs::directory_iterator file(folderOf(weights), code), end; !code && file != end;
       file.increment(code)) {
    StringRef name = llvm::sys::path::filename(file->path());
    if (!name.consume_front(llvm::sys::path::stem(weights)) || !name.consume_front(".") ||
        !name.consume_back(".safetensors") || name.size() != 2 * sizeof(Hash128) ||
        !llvm::all_of(name, llvm::isHexDigit))
      continue;
    if (ownerOfPackedArchive(file->path()) == llvm::sys::path::filename(options.output).str())
      llvm::sys::fs::remove(file->path());
  }
}

bool haveSameBytes(const std::string &first, const std::string &second) {
  std::unique_ptr<MappedFile> one, other;
  return MappedFile::open(first, one).ok() && MappedFile::open(second, other).ok() && one->size() == other->size() &&
         std::equal(one->data(), one->data() + one->size(), other->data());
}

/// Lets one process at a time replace files in a folder. File systems without locks do not exclude others.
class FolderLock {
public:
  explicit FolderLock(const std::string &folder)
      : descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor >= 0 && flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor >= 0)
      close(descriptor);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int descriptor;
};

/// Replaces an artifact and its weights. At each instant the old or the new pair can be loaded, wherever the process
/// ends: new weights wait under a name with their hash, which the runtime tries too, until their artifact is there
/// (docs/decisions/0016-a-pair-is-replaced-by-one-rename.md).
llvm::Error replacePair(TemporaryFiles &files, const std::string &artifact, const std::string &weightsFile,
                        const std::string &headerHash, const AssembleOptions &options) {
  std::string weights = weightsPath(options), waiting = waitingWeights(weights, headerHash);
  FolderLock lock(folderOf(weights));
  // A killed compilation has left a file of this name. An artifact may be using it, so it stays if anything fails,
  // unless it is damaged.
  bool wasWaiting = haveSameBytes(weightsFile, waiting);
  if (!wasWaiting) {
    llvm::sys::fs::remove(waiting);
    if (llvm::Error error = files.keep(weightsFile, waiting))
      return error;
  }
  if (llvm::Error error = files.keep(artifact, options.output)) {
    if (!wasWaiting)
      llvm::sys::fs::remove(waiting);
    return error;
  }
  if (std::error_code code = llvm::sys::fs::rename(waiting, weights))
    return createStringError(weights + ": cannot be written: " + code.message());
  removeWaitingWeights(options);
  return llvm::Error::success();
}

} // namespace

std::vector<std::string> outputFiles(const AssembleOptions &options) {
  std::vector<std::string> files = {options.output};
  if (hasWeightsBeside(options))
    files.push_back(weightsPath(options));
  return files;
}

llvm::Error checkOutput(const AssembleOptions &options) {
  if (llvm::Error error = errorOf(checkWritable(options.output)))
    return error;
  // The output is renamed into place, which would replace a device or a pipe.
  if (options.output == "-" ||
      (llvm::sys::fs::exists(options.output) && !llvm::sys::fs::is_regular_file(options.output)))
    return createStringError(options.output + ": an artifact can only be written to a file");
  if (options.emit == Emit::Obj && options.embedWeights)
    return createStringError("--emit=obj holds code alone; weights cannot be embedded into it");
  if (options.hostTriples.size() > 1 && options.emit != Emit::Bundle)
    return createStringError("targets of several architectures (" + llvm::join(options.hostTriples, ", ") +
                             ") need --emit=bundle; those of one architecture become variants of one artifact");
  if (options.emit == Emit::Exe)
    return checkRunner(options, options.hostTriples.front());
  return hasWeightsBeside(options) ? checkWeightsBeside(options) : llvm::Error::success();
}

struct WeightPacking::State {
  TemporaryFiles files;
  std::string weightsFile; // empty without weights
  std::optional<WeightPacker> packer;
  std::future<llvm::Expected<PackedWeights>> packing;

  /// A result that nobody asks for may be an error.
  ~State() {
    if (packing.valid())
      llvm::consumeError(packing.get().takeError());
  }
};

WeightPacking::WeightPacking(std::unique_ptr<State> state) : state(std::move(state)) {}
WeightPacking::WeightPacking(WeightPacking &&) = default;
WeightPacking::~WeightPacking() = default;

llvm::Expected<WeightPacking> WeightPacking::start(ModuleOp module, const AssembleOptions &options) {
  auto state = std::make_unique<State>();
  auto packer = WeightPacker::create(module, options.archiveDirectory);
  if (!packer)
    return packer.takeError();
  if (!packer->empty()) {
    auto path = state->files.make(weightsPath(options));
    if (!path)
      return path.takeError();
    state->weightsFile = *path;
  }
  state->packer.emplace(std::move(*packer));
  std::string owner = hasWeightsBeside(options) ? llvm::sys::path::filename(options.output).str() : std::string();
  state->packing = std::async(std::launch::async, [state = state.get(), owner, threads = options.threads] {
    return state->packer->empty() ? llvm::Expected<PackedWeights>(PackedWeights())
                                  : state->packer->write(state->weightsFile, owner, threads);
  });
  return WeightPacking(std::move(state));
}

llvm::Error assembleModule(ModuleOp module, const AssembleOptions &options, WeightPacking packing, StepCallback step) {
  TemporaryFiles &files = packing.state->files;
  const std::string &weightsFile = packing.state->weightsFile;
  step("weights");
  llvm::Expected<PackedWeights> weights = packing.state->packing.get();
  if (!weights)
    return files.named(weights.takeError());
  for (const std::string &warning : weights->warnings)
    emitWarning(module.getLoc()) << warning << ": results will be invalid; the weights may be corrupted";

  step("link");
  std::vector<std::string> artifacts;
  for (const target::ArtifactObjects &artifact : target::objectsOf(module)) {
    auto path = files.make(options.output);
    if (!path)
      return path.takeError();
    artifacts.push_back(*path);
    if (llvm::Error failed = writeModule(module, artifact, options, *weights, weightsFile, *path))
      return files.named(std::move(failed));
  }
  std::string result = artifacts.front();
  if (options.emit == Emit::Exe || options.emit == Emit::Bundle) {
    auto path = files.make(options.output);
    if (!path)
      return path.takeError();
    result = *path;
    FileVersions::note(options.runner);
    Status status = options.emit == Emit::Exe ? writeExecutable(result, options.runner, artifacts.front())
                                              : writeBundle(result, artifacts);
    if (!status.ok())
      return files.named(createStringError(status.message()));
  }
  // Nothing is replaced before everything is written, and read as one version of the model.
  if (Status status = FileVersions::check(); !status.ok())
    return createStringError(status.message());
  if (hasWeightsBeside(options) && !weightsFile.empty())
    return replacePair(files, result, weightsFile, weights->headerHash, options);
  return files.keep(result, options.output);
}

} // namespace intarsia
