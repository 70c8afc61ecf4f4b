//===- GpuExecutable.cpp - Kernels that a GPU has loaded --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuExecutable.h"

#include <algorithm>
#include <utility>

namespace intarsia::runtime {

// ---- Code -----------------------------------------------------------------------------------------------------

Status GpuExecutable::load(const GpuTarget &target, const ExecutableSource &source,
                           std::unique_ptr<Executable> &executable) {
  std::string where = format("%s: object of the device '%s'", source.name.c_str(), target.name);
  std::unique_ptr<GpuExecutable> result(new GpuExecutable(target));
  ITX_RETURN_IF_ERROR(parseGpuObject(source.object, source.bytes, where, result->object_));
  ITX_RETURN_IF_ERROR(result->loadCode(where));
  ITX_RETURN_IF_ERROR(result->bindKernels(source, where));
  for (GpuCode &code : result->object_.code)
    code.packed = {}; // the object may be freed
  executable = std::move(result);
  return Status::success();
}

GpuExecutable::~GpuExecutable() {
  if (!module_ || target_.state.isForked())
    return;
  target_.state.history().forget(this);
  target_.state.noteUnload();
  EnteredGpu entered(target_.driver, target_.device);
  if (entered.result().ok())
    target_.driver.unloadModule(module_);
}

/// Returns the version that PTX says it is of: "8.7" for ".version 8.7"; empty if there is none.
static std::string ptxVersionOf(const std::string &code) {
  static constexpr std::string_view directive = ".version";
  size_t at = code.find(directive);
  if (at == std::string::npos)
    return {};
  size_t begin = code.find_first_not_of(" \t", at + directive.size());
  size_t end = code.find_first_not_of("0123456789.", begin);
  return begin == std::string::npos ? "" : code.substr(begin, end == std::string::npos ? end : end - begin);
}

/// Loads a piece of code; after an error `failure` says what the driver made of it.
Status GpuExecutable::loadPiece(const GpuCode &code, const std::string &where, GpuFailure &failure) {
  failure = GpuFailure::None;
  std::string unpacked, log;
  ITX_RETURN_IF_ERROR(unpackGpuCode(code, where, unpacked));
  GpuResult result = target_.driver.loadModule(unpacked, log, module_);
  if (result.ok())
    return Status::success();
  module_ = nullptr;
  failure = result.failure;
  const char *kind = gpuCodeKindName(code.kind);
  std::string reason = target_.driver.explain(result);
  if (failure == GpuFailure::OldDriver) {
    std::string version = ptxVersionOf(unpacked), compiled = target_.driver.ptxVersion();
    return error(ITX_UNSUPPORTED,
                 "%s: its code for %s is PTX %s, but the driver, %s, compiles %s: update the driver, or compile the "
                 "model with ptxas installed, with --target=%s:%s (%s)",
                 where.c_str(), code.architecture.c_str(), version.c_str(), target_.driver.version().c_str(),
                 compiled.empty() ? "older versions alone" : ("PTX up to " + compiled).c_str(), target_.driver.kind(),
                 target_.properties.architecture.c_str(), reason.c_str());
  }
  if (failure == GpuFailure::NoCode || failure == GpuFailure::BadCode) {
    while (!log.empty() && (log.back() == '\n' || log.back() == '\0'))
      log.pop_back();
    return error(ITX_CORRUPT, "%s: the driver, %s, does not load its %s code for %s on %s (%s): %s%s%s", where.c_str(),
                 target_.driver.version().c_str(), kind, code.architecture.c_str(), target_.properties.name.c_str(),
                 target_.properties.architecture.c_str(), reason.c_str(), log.empty() ? "" : "\n", log.c_str());
  }
  return target_.state.fail(result, format("load the %s code of %s", kind, where.c_str()));
}

Status GpuExecutable::loadCode(const std::string &where) {
  std::vector<std::pair<int, size_t>> runnable; // rank and index: the first of equals comes first
  std::vector<std::string> all;
  for (size_t i = 0; i < object_.code.size(); ++i) {
    const GpuCode &code = object_.code[i];
    all.push_back(code.architecture + " (" + gpuCodeKindName(code.kind) + ")");
    if (std::optional<int> rank = target_.driver.rank(code.kind, code.architecture, target_.properties.architecture))
      runnable.push_back({*rank, i});
  }
  if (runnable.empty())
    return error(
        ITX_UNSUPPORTED, "%s: has code for %s, which %s (%s) does not run: compile the model with --target=%s:%s",
        where.c_str(), join(all).c_str(), target_.properties.name.c_str(), target_.properties.architecture.c_str(),
        target_.driver.kind(), target_.properties.architecture.c_str());
  std::sort(runnable.begin(), runnable.end());
  // Another piece computes the same: a driver that is too old for one may load the next. The first error is the one of
  // the code that should have run.
  Status first;
  for (auto [rank, index] : runnable) {
    GpuFailure failure = GpuFailure::None;
    Status status = loadPiece(object_.code[index], where, failure);
    if (status.ok())
      return status;
    if (first.ok())
      first = status;
    if (failure != GpuFailure::OldDriver && failure != GpuFailure::NoCode)
      return first;
  }
  return first;
}

// ---- Kernels --------------------------------------------------------------------------------------------------

Status GpuExecutable::bindFunction(const std::string &name, const std::string &where, Bound &bound) {
  if (auto found = functions_.find(name); found != functions_.end()) {
    std::tie(bound.function, bound.slot) = found->second;
    return Status::success();
  }
  GpuResult result = target_.driver.findFunction(module_, name.c_str(), bound.function);
  if (result.failure == GpuFailure::NotFound)
    return error(ITX_CORRUPT, "%s: its code lacks the function '%s'", where.c_str(), name.c_str());
  if (!result.ok())
    return target_.state.fail(result, format("load the function '%s'", name.c_str()));
  bound.slot = uint32_t(allowedShared_.size());
  allowedShared_.push_back(uint32_t(target_.properties.defaultSharedBytes));
  functions_[name] = {bound.function, bound.slot};
  return Status::success();
}

Status GpuExecutable::bindKernels(const ExecutableSource &source, const std::string &where) {
  for (uint32_t index : source.wanted) {
    const GpuKernel *kernel = object_.find(index);
    std::string name = (*source.kernels)[index];
    if (!kernel)
      return error(ITX_CORRUPT, "%s: lacks the kernel '%s'", where.c_str(), name.c_str());
    Kernel &bound = kernels_[index];
    bound.kernel = kernel;
    for (const GpuLaunch &launch : kernel->launches) {
      bound.launches.push_back({&launch, nullptr, 0});
      ITX_RETURN_IF_ERROR(bindFunction(launch.function, where + ", kernel '" + name + "'", bound.launches.back()));
    }
  }
  return Status::success();
}

const GpuExecutable::Kernel *GpuExecutable::kernel(uint32_t index) const {
  auto found = kernels_.find(index);
  return found == kernels_.end() ? nullptr : &found->second;
}

GpuResult GpuExecutable::allowShared(const Bound &bound, uint32_t bytes) {
  uint32_t &allowed = allowedShared_[bound.slot];
  if (bytes <= allowed)
    return {};
  GpuResult result = target_.driver.allowShared(bound.function, bytes);
  if (result.ok())
    allowed = bytes;
  return result;
}

// ---- Launches -------------------------------------------------------------------------------------------------

std::string launchText(const Launch &launch) { return format("kernel '%s' (%s)", launch.name, launch.label); }

Status computeTensorBox(const GpuTensorMap &map, const Launch &launch, GpuTensorBox &box) {
  // CUDA driver API, cuTensorMapEncodeTiled(): the most elements of a dimension, the unit of a row's bytes.
  static constexpr int64_t mostElements = int64_t(1) << 32, pitchUnit = 16;
  std::optional<int64_t> rows = evaluate(map.rows, launch.sizes, launch.sizeCount);
  std::optional<int64_t> columns = evaluate(map.columns, launch.sizes, launch.sizeCount);
  auto fits = [](std::optional<int64_t> count) { return count && *count > 0 && *count <= mostElements; };
  if (!fits(rows) || !fits(columns) || *columns * map.elementBytes % pitchUnit != 0)
    return error(
        ITX_INVALID_ARGUMENT,
        "%s: operand %u has %s rows of %s elements of %u bytes for the sizes %s; tensor copies need 1 to 2^32 of "
        "both, and rows of a multiple of 16 bytes",
        launchText(launch).c_str(), map.buffer, sizeExpressionText(map.rows).c_str(),
        sizeExpressionText(map.columns).c_str(), map.elementBytes,
        shapeText(std::vector<int64_t>(launch.sizes, launch.sizes + launch.sizeCount)).c_str());
  box = {uint64_t(*rows), uint64_t(*columns), map.elementBytes, map.boxRows, map.boxColumns, map.swizzleBytes};
  return Status::success();
}

Status computeGrid(const GpuLaunch &shape, const Launch &launch, const GpuProperties &properties, GpuGrid &grid,
                   bool &isEmpty) {
  // Both CUDA and HIP allow as many blocks.
  static constexpr int64_t largest[] = {INT32_MAX, 65535, 65535};
  auto sizes = [&] { return shapeText(std::vector<int64_t>(launch.sizes, launch.sizes + launch.sizeCount)); };
  isEmpty = false;
  for (size_t i = 0; i < 3; ++i) {
    std::optional<int64_t> blocks = evaluate(shape.grid[i], launch.sizes, launch.sizeCount);
    if (!blocks || *blocks < 0)
      return error(ITX_INVALID_ARGUMENT, "%s: its number of blocks, %s, does not fit in 64 bits for the sizes %s",
                   launchText(launch).c_str(), sizeExpressionText(shape.grid[i]).c_str(), sizes().c_str());
    if (*blocks > largest[i])
      return error(ITX_INVALID_ARGUMENT,
                   "%s: its grid has %lld blocks in dimension %zu for the sizes %s, at most %lld are possible: use "
                   "smaller batches or shorter sequences",
                   launchText(launch).c_str(), (long long)*blocks, i, sizes().c_str(), (long long)largest[i]);
    isEmpty |= *blocks == 0;
    grid.blocks[i] = uint32_t(*blocks);
    grid.threads[i] = shape.block[i];
  }
  std::optional<int64_t> shared = evaluate(shape.shared, launch.sizes, launch.sizeCount);
  if (!shared || *shared < 0 || uint64_t(*shared) > properties.sharedBytes)
    return error(ITX_INVALID_ARGUMENT, "%s: a block needs %s bytes of shared memory for the sizes %s, %s has %llu",
                 launchText(launch).c_str(), shared ? std::to_string(*shared).c_str() : "more than 2^63",
                 sizes().c_str(), properties.name.c_str(), (unsigned long long)properties.sharedBytes);
  grid.sharedBytes = uint32_t(*shared);
  return Status::success();
}

} // namespace intarsia::runtime
