//===- Module.cpp - A loaded artifact -----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Module.h"

#include "lib/Formats/Artifact.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Support/CpuFeatures.h"
#include "lib/Support/File.h"
#include "lib/Support/Hash.h"
#include "lib/Support/MachineLimits.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace intarsia::runtime {

/// The source of an artifact. `path` is empty if it is in memory.
struct Module::Source {
  std::string name;
  std::string path;
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;
  uint64_t offset = 0; // of data in the file
};

Module::Module() = default;

Module::~Module() {
  // Another rank may be waiting to give results that nobody has taken here; if that has failed, so has the world.
  if (world_) {
    std::lock_guard lock(world_->mutex());
    (void)world_->late().finish(world_->late().lastOf(this));
    deviceGroups_.reset();
  }
  // Calls and devices refer to the code.
  freeCalls_.clear();
  verifier_.reset();
  devices_.clear();
  if (library_)
    dlclose(library_);
  if (codeFile_ >= 0)
    close(codeFile_);
}

Status Module::load(const std::string &path, const LoadOptions &options, std::shared_ptr<Module> &module) {
  std::unique_ptr<MappedFile> file;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, file));
  ArtifactExtent extent;
  ITX_RETURN_IF_ERROR(findArtifact(file->data(), file->size(), path, extent));
  return loadSource({path, path, file->data() + extent.offset, extent.bytes, extent.offset}, options, module);
}

Status Module::loadMemory(const void *data, uint64_t bytes, const std::string &name, const LoadOptions &options,
                          std::shared_ptr<Module> &module) {
  ArtifactExtent extent;
  const uint8_t *begin = static_cast<const uint8_t *>(data);
  ITX_RETURN_IF_ERROR(findArtifact(begin, bytes, name, extent));
  return loadSource({name, "", begin + extent.offset, extent.bytes, 0}, options, module);
}

Status Module::loadEmbedded(const std::string &path, const LoadOptions &options, std::shared_ptr<Module> &module) {
  std::unique_ptr<MappedFile> file;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, file));
  ArtifactExtent payload, extent;
  ITX_RETURN_IF_ERROR(findPayload(file->data(), file->size(), path, payload));
  ITX_RETURN_IF_ERROR(findArtifact(file->data() + payload.offset, payload.bytes, path, extent));
  uint64_t offset = payload.offset + extent.offset;
  return loadSource({path, path, file->data() + offset, extent.bytes, offset}, options, module);
}

/// Returns the devices of this machine that a module may run on. If it needs none but those that every machine has, no
/// driver is looked for: that may take longer than the whole load.
static std::vector<Device *> presentDevices(const Manifest &manifest, const LoadOptions &options) {
  std::vector<Device *> known = hostedDevices();
  for (const std::shared_ptr<Device> &made : options.made)
    known.push_back(made.get());
  auto isKnown = [&](const std::string &wanted, const char *(Device::*text)() const) {
    return std::any_of(known.begin(), known.end(), [&](Device *device) { return wanted == (device->*text)(); });
  };
  bool isEnough = std::all_of(manifest.devices.begin(), manifest.devices.end(),
                              [&](const DeviceInfo &info) { return isKnown(info.kind, &Device::kind); }) &&
                  std::all_of(options.devices.begin(), options.devices.end(),
                              [&](const std::string &name) { return isKnown(name, &Device::name); });
  return isEnough ? hostedDevices() : runtime::devices();
}

Status Module::loadSource(const Source &source, const LoadOptions &options, std::shared_ptr<Module> &module) {
  ArtifactHeader header;
  ITX_RETURN_IF_ERROR(checkArtifactHeader(source.data, source.bytes, source.name, header));
  std::shared_ptr<Module> result(new Module);
  result->name_ = source.name;
  std::memcpy(result->hash_.data(), header.hash, sizeof(header.hash));
  ITX_RETURN_IF_ERROR(result->loadCode(source, header.fileBytes));
  ITX_RETURN_IF_ERROR(result->joinWorld());
  std::vector<size_t> functions;
  std::vector<Device *> present = presentDevices(result->manifest_, options);
  result->madeDevices_ = options.made;
  for (const std::shared_ptr<Device> &made : options.made)
    present.push_back(made.get());
  if (result->world_)
    orderForRank(result->manifest_, result->world_->rankOnHost(), present);
  ITX_RETURN_IF_ERROR(bindDevices(result->manifest_, result->name_, options.devices, present,
                                  result->world_ ? result->world_->rank() : 0, result->devices_, functions));
  for (bool isForCallers : {true, false})
    for (size_t function : functions)
      if (const FunctionInfo &info = result->manifest_.functions[function]; info.isForCallers() == isForCallers)
        result->functions_.push_back({&info});
  ITX_RETURN_IF_ERROR(result->findParts());
  ITX_RETURN_IF_ERROR(result->openDeviceGroups());
  ITX_RETURN_IF_ERROR(result->chooseVariant(options.variant));
  ITX_RETURN_IF_ERROR(result->bindCode(options));
  ITX_RETURN_IF_ERROR(result->loadWeights(source, header.weightsOffset, header.weightsBytes, options));
  ITX_RETURN_IF_ERROR(result->computeGlobals());
  module = std::move(result);
  return Status::success();
}

/// Copies the code into a file in memory and checks the copy, so that the checked code runs whatever happens to the
/// file. A path can also be loaded again after the file was replaced, which dlopen by path would not notice.
Status Module::loadCode(const Source &source, uint64_t bytes) {
  std::string label = name_.substr(name_.rfind('/') + 1).substr(0, 200);
  codeFile_ = int(syscall(SYS_memfd_create, label.c_str(), MFD_CLOEXEC));
  if (codeFile_ < 0)
    return error(ITX_IO_ERROR, "%s: cannot make a file in memory for its code: %s", name_.c_str(),
                 std::strerror(errno));
  for (uint64_t done = 0; done < bytes;) {
    ssize_t written = write(codeFile_, source.data + done, bytes - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return error(ITX_OUT_OF_MEMORY, "%s: cannot copy its code into memory: %s", name_.c_str(), std::strerror(errno));
    done += written;
  }
  void *mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, codeFile_, 0);
  if (mapped == MAP_FAILED)
    return error(ITX_OUT_OF_MEMORY, "%s: cannot map its code: %s", name_.c_str(), std::strerror(errno));
  Status status = checkArtifactContents(static_cast<const uint8_t *>(mapped), bytes, name_, manifest_);
  munmap(mapped, bytes);
  return status;
}

/// Joins the world that the module was compiled for, makes its groups, and checks that all ranks load this artifact.
Status Module::joinWorld() {
  const WorldInfo &wanted = manifest_.world;
  if (wanted.size == 0)
    return Status::success();
  ITX_RETURN_IF_ERROR(World::ofProcess(world_));
  if (!world_ || world_->size() != wanted.size)
    return error(
        ITX_INVALID_ARGUMENT,
        "%s: is compiled for a world of %d ranks, this process is %s: start it with intarsia-run --world=%d, or "
        "with mpirun -n %d",
        name_.c_str(), wanted.size, world_ ? format("in one of %d", world_->size()).c_str() : "in no world",
        wanted.size, wanted.size);
  std::lock_guard lock(world_->mutex());
  Status status = world_->agree(hash_, "artifact", "compile the model once and give all ranks the same file");
  for (size_t i = 0; status.ok() && i < wanted.groups.size(); ++i) {
    groups_.push_back(nullptr);
    status = world_->group(wanted.groups[i], groups_.back());
  }
  return status.ok() ? status : error(status.code(), "%s: %s", name_.c_str(), status.message().c_str());
}

/// Tells the other ranks of the device that runs the functions of this one.
Status Module::openDeviceGroups() {
  bool hasDevices = std::any_of(manifest_.devices.begin(), manifest_.devices.end(),
                                [](const DeviceInfo &info) { return info.kind != hostDevice().kind(); });
  if (!world_ || !hasDevices)
    return Status::success();
  std::set<uint32_t> used;
  for (const ModuleFunction &function : functions_)
    used.insert(function.info->devices.begin(), function.info->devices.end());
  Device *device = used.size() == 1 && devices_[*used.begin()].hasOwnMemory ? devices_[*used.begin()].device : nullptr;
  std::lock_guard lock(world_->mutex());
  Status status = DeviceGroups::open(*world_, device, deviceGroups_);
  return status.ok() ? status : error(status.code(), "%s: %s", name_.c_str(), status.message().c_str());
}

/// Returns the first feature of a variant that is missing in a list; empty if none is.
static std::string missingFeature(const VariantInfo &variant, const std::vector<std::string> &features) {
  for (const std::string &feature : variant.features)
    if (std::find(features.begin(), features.end(), feature) == features.end())
      return feature;
  return {};
}

std::optional<size_t> bestVariant(const std::vector<VariantInfo> &variants, const std::string &wanted,
                                  const std::vector<std::string> &features, const std::string &processor) {
  std::optional<size_t> best;
  auto rank = [&](const VariantInfo &variant) {
    return std::pair(!processor.empty() && variant.cpu == processor, variant.features.size());
  };
  for (size_t i = 0; i < variants.size(); ++i)
    if ((wanted.empty() || variants[i].name == wanted) && missingFeature(variants[i], features).empty() &&
        (!best || rank(variants[i]) > rank(variants[*best])))
      best = i;
  return best;
}

Status Module::chooseVariant(const std::string &wanted) {
  const std::vector<VariantInfo> &variants = manifest_.variants;
  if (std::optional<size_t> best = bestVariant(variants, wanted, hostFeatures(), hostProcessorName())) {
    variant_ = *best;
    return Status::success();
  }
  std::vector<std::string> names;
  std::string missing;
  for (const VariantInfo &variant : variants) {
    names.push_back(variant.name);
    if (wanted.empty() || variant.name == wanted)
      missing = missingFeature(variant, hostFeatures());
  }
  if (missing.empty())
    return error(ITX_NOT_FOUND, "%s: has no target variant '%s'; it has %s", name_.c_str(), wanted.c_str(),
                 join(names).c_str());
  return error(ITX_UNSUPPORTED,
               "%s: is compiled for %s, which needs the CPU feature '%s'; this CPU (%s) lacks it: compile the model "
               "with --target=%s",
               name_.c_str(), wanted.empty() ? join(names).c_str() : wanted.c_str(), missing.c_str(),
               hostDescription().c_str(), suggestedTarget().c_str());
}

/// Checks that the code was compiled for this manifest: it refers to entries by number and relies on their contents.
/// Counts are compared first, since they say what differs.
static Status checkManifest(const Manifest &manifest, const std::string &name, const itx_module_descriptor &code) {
  auto check = [&](const std::string &what, uint32_t compiled, size_t listed) -> Status {
    if (compiled == listed)
      return Status::success();
    return error(ITX_CORRUPT, "%s: its code was compiled for %u %s, its manifest lists %zu", name.c_str(), compiled,
                 what.c_str(), listed);
  };
  ITX_RETURN_IF_ERROR(check("target variants", code.variant_count, manifest.variants.size()));
  ITX_RETURN_IF_ERROR(check("devices", code.device_count, manifest.devices.size()));
  size_t objects = 0; // they are numbered from 0
  for (const DeviceInfo &device : manifest.devices)
    for (const ObjectInfo &object : device.objects)
      objects = std::max(objects, size_t(object.object) + 1);
  ITX_RETURN_IF_ERROR(check("objects", code.object_count, objects));
  ITX_RETURN_IF_ERROR(check("kernels", code.kernel_count, manifest.kernels.size()));
  ITX_RETURN_IF_ERROR(check("labels", code.label_count, manifest.labels.size()));
  ITX_RETURN_IF_ERROR(check("weights", code.weight_count, manifest.weights.tensors.size()));
  ITX_RETURN_IF_ERROR(check("functions", code.function_count, manifest.functions.size()));
  for (size_t i = 0; i < manifest.functions.size(); ++i) {
    const FunctionInfo &function = manifest.functions[i];
    const itx_function_entry &entry = code.functions[i];
    size_t ranges = 0, belows = 0, outputSizes = 0;
    for (const ValueInfo &input : function.inputs) {
      ranges += input.hasRange;
      belows += input.belowSize >= 0;
    }
    for (const ValueInfo &output : function.outputs)
      outputSizes += output.shape.size();
    std::string of = " of function '" + function.name + "'";
    ITX_RETURN_IF_ERROR(check("symbolic sizes" + of, entry.size_count, function.sizes.size()));
    ITX_RETURN_IF_ERROR(check("checks" + of, entry.check_count, function.checks.size()));
    ITX_RETURN_IF_ERROR(check("inputs" + of, entry.input_count, function.inputs.size()));
    ITX_RETURN_IF_ERROR(check("inputs with a range" + of, entry.range_count, ranges));
    ITX_RETURN_IF_ERROR(check("inputs below a size" + of, entry.below_count, belows));
    ITX_RETURN_IF_ERROR(check("outputs" + of, entry.output_count, function.outputs.size()));
    ITX_RETURN_IF_ERROR(check("dimensions of the outputs" + of, entry.output_size_count, outputSizes));
  }
  Hash128 hash;
  std::memcpy(hash.data(), code.manifest_hash, hash.size());
  if (hash != Hash128{} && hash != hashBytes(manifest.text.data(), manifest.text.size()))
    return error(ITX_CORRUPT, "%s: its code was compiled for another manifest than it has", name.c_str());
  return Status::success();
}

Status Module::bindCode(const LoadOptions &options) {
  // The name is unique while the descriptor is open, and it is open while the library is loaded.
  std::string path = format("/proc/self/fd/%d", codeFile_);
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char *reason = dlerror();
    return error(ITX_CORRUPT, "%s: cannot load its code: %s", name_.c_str(), reason ? reason : "unknown reason");
  }
  descriptor_ = static_cast<const itx_module_descriptor *>(dlsym(library_, ITX_MODULE_SYMBOL));
  if (!descriptor_)
    return error(ITX_CORRUPT, "%s: does not export '%s'", name_.c_str(), ITX_MODULE_SYMBOL);
  if (descriptor_->abi_version != ITX_MODULE_ABI_VERSION)
    return error(ITX_VERSION_MISMATCH, "%s: has module ABI %u, this runtime has %u: compile the model again",
                 name_.c_str(), descriptor_->abi_version, ITX_MODULE_ABI_VERSION);
  ITX_RETURN_IF_ERROR(checkManifest(manifest_, name_, *descriptor_));
  kernels_ = descriptor_->kernels + variant_ * descriptor_->kernel_count;
  for (ModuleFunction &function : functions_)
    function.call = descriptor_->functions[function.info - manifest_.functions.data()].call;
  if (options.verifyKernels != 0)
    ITX_RETURN_IF_ERROR(
        KernelVerifier::create(manifest_, name_, *descriptor_, options.devices, options.verifyKernels, verifier_));
  return loadKernels(manifest_, name_, *descriptor_, kernels_, devices_);
}

/// Returns the file that a link leads to, "" if the path is none.
static std::string targetOf(const std::string &path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode))
    return "";
  std::unique_ptr<char, void (*)(void *)> target(realpath(path.c_str(), nullptr), std::free);
  return target ? target.get() : "";
}

Status Module::loadWeights(const Source &source, uint64_t offset, uint64_t bytes, const LoadOptions &options) {
  const WeightsInfo &info = manifest_.weights;
  if (!info.present)
    return Status::success();
  bool embedded = info.file.empty();
  if (embedded && offset == 0)
    return error(ITX_CORRUPT, "%s: its manifest says that weights are inside it, but there are none", name_.c_str());
  std::string path = options.weights;
  bool isBeside = path.empty() && !embedded;
  if (isBeside)
    path = folderOf(source.name) + "/" + info.file;
  if (!path.empty()) {
    Status status;
    auto isIn = [&](const std::vector<std::string> &candidates) {
      for (const std::string &candidate : candidates) {
        status = SafetensorsFile::open(candidate, archive_);
        if (status.ok() && archive_->headerHash() == info.headerHash)
          return true;
      }
      return false;
    };
    // The compiler renames the artifact before the weights, which wait under another name. If they are not there, they
    // have been renamed meanwhile.
    bool isFound = isIn({path});
    if (isBeside && !isFound)
      isFound = isIn({waitingWeights(path, info.headerHash), path});
    // A link to an artifact may have been made without one to the weights.
    std::string target = isBeside && !isFound ? targetOf(source.name) : "";
    if (!target.empty()) {
      Status beside = std::move(status);
      if (!isIn({folderOf(target) + "/" + info.file}))
        status = std::move(beside);
    }
    if (status.code() == ITX_NOT_FOUND)
      return error(ITX_NOT_FOUND, "%s: the weights of '%s' are missing: they belong beside it", path.c_str(),
                   name_.c_str());
    ITX_RETURN_IF_ERROR(status);
  } else if (!source.path.empty()) {
    ITX_RETURN_IF_ERROR(
        SafetensorsFile::openPart(source.path, source.offset + offset, bytes, name_ + " (embedded weights)", archive_));
  } else {
    weightsCopy_.resize(bytes + ITX_BUFFER_ALIGNMENT);
    auto address = reinterpret_cast<uintptr_t>(weightsCopy_.data());
    uint8_t *aligned = weightsCopy_.data() + (ITX_BUFFER_ALIGNMENT - address % ITX_BUFFER_ALIGNMENT);
    std::memcpy(aligned, source.data + offset, bytes);
    ITX_RETURN_IF_ERROR(SafetensorsFile::parse(aligned, bytes, name_ + " (embedded weights)", archive_));
  }
  return bindWeights(options);
}

/// Checks the archive of the weights, finds the tensors in it and copies them to the devices that keep them.
Status Module::bindWeights(const LoadOptions &options) {
  const WeightsInfo &info = manifest_.weights;
  const char *where = archive_->name().c_str();
  if (archive_->size() != info.bytes)
    return error(ITX_CORRUPT, "%s: has %llu bytes, '%s' was compiled with %llu", where,
                 (unsigned long long)archive_->size(), name_.c_str(), (unsigned long long)info.bytes);
  if (archive_->headerHash() != info.headerHash)
    return error(ITX_CORRUPT,
                 "%s: is not what '%s' was compiled with, as its header shows: is it of another model or compilation? "
                 "Each artifact needs the file that was written with it",
                 where, name_.c_str());
  uint64_t header = archive_->headerBytes();
  if (options.verify && hashTextOf(archive_->data() + header, archive_->size() - header) != info.hash)
    return error(ITX_CORRUPT, "%s: is damaged: its contents do not have the hash that '%s' says", where, name_.c_str());
  std::vector<uint64_t> bytes;
  for (const std::string &name : info.tensors) {
    const ArchiveTensor *entry = archive_->find(name);
    if (!entry)
      return error(ITX_CORRUPT, "%s: has no tensor '%s', which '%s' needs", where, name.c_str(), name_.c_str());
    if (reinterpret_cast<uintptr_t>(entry->data) % ITX_BUFFER_ALIGNMENT != 0 && entry->bytes() != 0)
      return error(ITX_CORRUPT, "%s: tensor '%s' begins at byte %llu, which is not a multiple of %d", where,
                   name.c_str(), (unsigned long long)entry->begin, ITX_BUFFER_ALIGNMENT);
    weightPointers_.push_back(const_cast<void *>(entry->data));
    bytes.push_back(entry->bytes());
  }
  ITX_RETURN_IF_ERROR(uploadWeights(info, archive_->name(), bytes, devices_, weightPointers_));
  for (size_t i = 0; verifier_ && i < bytes.size(); ++i)
    verifier_->addWeight(memoryOf(info.devices[i]), weightPointers_[i], bytes[i]);
  return startStream(options);
}

/// Starts reading weights while calls run, if the module may not take the memory for all of them, or if there is less.
Status Module::startStream(const LoadOptions &options) {
  const WeightsInfo &info = manifest_.weights;
  std::vector<const ArchiveTensor *> tensors;
  uint64_t bytes = 0;
  for (size_t i = 0; i < info.tensors.size(); ++i) {
    const ArchiveTensor *entry = archive_->find(info.tensors[i]);
    if (memoryOf(info.devices[i]) || info.isGathered[i] || entry->bytes() == 0)
      continue;
    tensors.push_back(entry);
    bytes += entry->bytes();
  }
  MemoryLimit limit = {options.memoryBytes};
  if (archive_->mapping() && !verifier_) {
    // What this process can have is the limit where that is less than what it may have.
    uint64_t available = availableMemoryBytes(), own = anonymousBytes();
    uint64_t possible = available > UINT64_MAX - own ? UINT64_MAX : available + own;
    if (limit.bytes == 0 ? bytes > available : limit.bytes > possible)
      limit = {possible, /*isPromise=*/false};
  }
  if (limit.bytes == 0 || tensors.empty())
    return Status::success();
  if (verifier_)
    return error(ITX_UNSUPPORTED,
                 "%s: kernels are verified with all weights in memory: leave out either the limit of memory or the "
                 "verification",
                 name_.c_str());
  return WeightStream::create(name_, *archive_, tensors, limit, stream_);
}

/// Finds which function continues which.
Status Module::findParts() {
  for (size_t i = 0; i < functions_.size(); ++i) {
    const FunctionInfo &part = *functions_[i].info;
    if (part.continues.empty())
      continue;
    auto before = std::find_if(functions_.begin(), functions_.end(), [&](const ModuleFunction &function) {
      return function.info->name == part.continues && !function.next && function.info != &part &&
             !function.info->runsAtLoad;
    });
    size_t passed = before == functions_.end() ? 0 : before->info->givenInputs + before->info->outputs.size();
    bool fits = before != functions_.end() && passed <= part.givenInputs;
    for (size_t k = 0; fits && k < part.givenInputs; ++k) {
      int32_t from = part.inputs[k].sizeFrom;
      if (k < passed)
        fits = from < 0;
      else
        fits = from >= 0 && size_t(from) < before->info->outputs.size() &&
               before->info->outputs[from].dtype == ITX_I64 && before->info->outputs[from].shape.empty();
    }
    if (!fits)
      return error(ITX_CORRUPT, "%s: function '%s' does not continue '%s' as its manifest says", name_.c_str(),
                   part.name.c_str(), part.continues.c_str());
    before->next = i;
  }
  // Parts that continue each other in a circle are reached by no caller.
  return Status::success();
}

/// Runs the functions that run at load, and keeps their results where the functions that read them want them.
Status Module::computeGlobals() {
  std::map<std::string, Device *> memories; // that the first function wants each global in
  std::set<std::string> states;
  for (const ModuleFunction &function : functions_) {
    for (const ValueInfo &input : function.info->inputs)
      if (!input.global.empty())
        memories.emplace(input.global, memoryOf(input.device));
    for (const ValueInfo &output : function.info->outputs)
      if (!output.global.empty() && !function.info->runsAtLoad)
        states.insert(output.global);
  }
  states_.assign(states.begin(), states.end());
  for (size_t i = 0; i < functions_.size(); ++i) {
    const FunctionInfo &info = *functions_[i].info;
    if (!info.runsAtLoad)
      continue;
    std::unique_ptr<::itx_call> call = takeCall();
    Status status = prepareCall(*this, i, nullptr, 0, *call);
    call->outputMemories.clear();
    for (const ValueInfo &output : info.outputs)
      call->outputMemories.push_back(memories[output.global]);
    if (status.ok())
      status = runCall(*call);
    if (status.ok())
      for (size_t k = 0; k < info.outputs.size(); ++k)
        globals_.set(info.outputs[k].global, std::move(call->outputs[k]));
    call->clear();
    // Its workspace may be large, and it never runs again.
    call.reset();
    if (!status.ok())
      return error(status.code(), "%s: function '%s', which computes constants at load, has failed: %s", name_.c_str(),
                   info.name.c_str(), status.message().c_str());
  }
  return Status::success();
}

Status Module::file(const std::string &name, const void *&data, uint64_t &bytes) const {
  std::vector<std::string> names;
  for (const FileInfo &file : manifest_.files) {
    names.push_back(file.name);
    if (file.name != name)
      continue;
    ITX_RETURN_IF_ERROR(checkWeights());
    const ArchiveTensor *entry = archive_->find(file.tensor);
    if (!entry)
      return error(ITX_CORRUPT, "%s: has no tensor '%s', in which '%s' keeps its file '%s'", archive_->name().c_str(),
                   file.tensor.c_str(), name_.c_str(), name.c_str());
    if (hashTextOf(entry->data, entry->bytes()) != file.hash)
      return error(ITX_CORRUPT, "%s: is damaged: file '%s' in it does not have the hash that '%s' says",
                   archive_->name().c_str(), name.c_str(), name_.c_str());
    data = entry->data;
    bytes = entry->bytes();
    return Status::success();
  }
  return error(ITX_NOT_FOUND, "%s: carries no file '%s'; it carries: %s", name_.c_str(), name.c_str(),
               names.empty() ? "none" : join(names).c_str());
}

std::unique_ptr<::itx_call> Module::takeCall() {
  // The lock is only tried: a child of a fork may find it held for ever.
  if (std::unique_lock lock(callMutex_, std::try_to_lock); lock && !freeCalls_.empty()) {
    std::unique_ptr<::itx_call> call = std::move(freeCalls_.back());
    freeCalls_.pop_back();
    return call;
  }
  return std::make_unique<::itx_call>();
}

void Module::giveCall(std::unique_ptr<::itx_call> call) {
  call->clear();
  if (std::unique_lock lock(callMutex_, std::try_to_lock); lock && freeCalls_.size() < 64)
    freeCalls_.push_back(std::move(call));
}

} // namespace intarsia::runtime
