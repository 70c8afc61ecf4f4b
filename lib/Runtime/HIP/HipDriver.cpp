//===- HipDriver.cpp - The HIP runtime --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/HIP/HipDriver.h"

#include "lib/Formats/DLPack.h"
#include "lib/Runtime/GPU/GpuLibrary.h"
#include "lib/Runtime/HIP/HipArchitecture.h"

#include <cstring>

namespace intarsia::runtime::hip {

Status Api::find(Api &api) {
  GpuLibrary library;
  // ROCm's own folder is not among those of the dynamic linker everywhere.
  std::vector<std::string> names;
  for (const char *version : {"7", "6", "5"})
    for (const char *folder : {"", "/opt/rocm/lib/"})
      names.push_back(format("%slibamdhip64.so.%s", folder, version));
  ITX_RETURN_IF_ERROR(GpuLibrary::open(names, "HIP runtime", library));
  Api found;
#define INTARSIA_HIP_FUNCTION(name, symbol, isRequired, arguments) library.bind(#symbol, found.name, isRequired);
#include "lib/Runtime/HIP/HipFunctions.def"
  library.bind("hipGetErrorName", found.errorName, true);
  library.bind("hipGetErrorString", found.errorText, true);
  library.bind("hipGetDeviceProperties", found.properties5, found.properties6 == nullptr);
  ITX_RETURN_IF_ERROR(library.check());
  api = found;
  return Status::success();
}

// ---- Errors ---------------------------------------------------------------------------------------------------

GpuFailure failureOf(Result result) {
  switch (result) {
  case 0:
    return GpuFailure::None;
  case errorNotReady:
    return GpuFailure::NotReady;
  case errorOutOfMemory:
    return GpuFailure::OutOfMemory;
  case errorNoBinaryForGpu:
    return GpuFailure::NoCode;
  case errorInvalidImage:
  case errorInvalidKernelFile:
    return GpuFailure::BadCode;
  case errorNotFound:
    return GpuFailure::NotFound;
  case errorNotSupported:
    return GpuFailure::Unsupported;
  case errorDeinitialized:
  case errorEccNotCorrectable:
  case errorIllegalAddress:
  case errorLaunchTimeOut:
  case errorContextIsDestroyed:
  case errorAssert:
  case errorLaunchFailure:
    return GpuFailure::Lost;
  default:
    return GpuFailure::Other;
  }
}

/// Calls a function and returns what it returned, with the function's symbol.
#define INTARSIA_CALL(function, ...) resultOf(api_.function(__VA_ARGS__), Symbols::function)

static GpuResult resultOf(Result result, const char *call) { return {failureOf(result), result, call}; }

std::string HipDriver::explain(const GpuResult &result) const {
  const char *name = api_.errorName(result.code), *text = api_.errorText(result.code);
  return format("%s (%d) at %s: %s", name ? name : "an unknown error", result.code, result.call, text ? text : "");
}

// ---- The library and its devices ------------------------------------------------------------------------------

Status HipDriver::init() {
  GpuResult result = INTARSIA_CALL(init, 0);
  if (result.ok())
    result = INTARSIA_CALL(runtimeVersion, &version_);
  if (result.ok())
    result = INTARSIA_CALL(deviceCount, &count_);
  if (result.code == errorNoDevice || result.code == errorInvalidDevice || (result.ok() && count_ == 0))
    return error(ITX_NOT_FOUND, "the HIP runtime sees no GPU (may this user open /dev/kfd and /dev/dri? is "
                                "HIP_VISIBLE_DEVICES set?)");
  if (!result.ok())
    return error(ITX_UNSUPPORTED, "the HIP runtime does not start: %s", explain(result).c_str());
  return Status::success();
}

std::string HipDriver::version() const {
  return format("HIP %d.%d.%d", version_ / 10000000, version_ / 100000 % 100, version_ % 100000);
}

int32_t HipDriver::dlpackType() const { return kDLROCM; }

GpuResult HipDriver::countDevices(int &count) {
  count = count_;
  return {};
}

GpuResult HipDriver::readProperties(int device, GpuProperties &properties) {
  char name[256] = "", pciBus[64] = "";
  size_t bytes = 0;
  GpuResult result = INTARSIA_CALL(deviceName, name, int(sizeof(name)), device);
  if (result.ok())
    result = INTARSIA_CALL(deviceMemory, &bytes, device);
  if (result.ok())
    result = INTARSIA_CALL(devicePciBus, pciBus, int(sizeof(pciBus)), device);
  int shared = 0;
  struct {
    Attribute attribute;
    int &value;
  } attributes[] = {{attributeMaxSharedMemoryPerBlock, shared},
                    {attributeMultiprocessorCount, properties.processors},
                    {attributeWarpSize, properties.warpThreads}};
  for (auto &[attribute, value] : attributes)
    if (result.ok())
      result = INTARSIA_CALL(deviceAttribute, &value, attribute, device);
  // Twice the bytes of the largest structure, in case a later version has made it longer.
  alignas(16) char structure[2 * propertiesOf6.bytes] = "";
  const PropertiesLayout &layout = api_.properties6 ? propertiesOf6 : propertiesOf5;
  if (result.ok())
    result = api_.properties6 ? INTARSIA_CALL(properties6, structure, device)
                              : INTARSIA_CALL(properties5, structure, device);
  std::string architecture(structure + layout.architectureName,
                           strnlen(structure + layout.architectureName, 256)); // "gfx942:sramecc+:xnack-"
  properties.name = name[0] ? name : architecture;
  properties.pciBus = pciBus;
  properties.memoryBytes = bytes;
  properties.architecture = architecture.substr(0, architecture.find(':'));
  properties.defaultSharedBytes = properties.sharedBytes = uint64_t(shared);
  properties.details = {architecture, properties.pciBus};
  return result;
}

std::optional<int> HipDriver::rank(GpuCodeKind kind, const std::string &code, const std::string &device) const {
  return rankCode(kind, code, device);
}

/// Does nothing: the library prepares a device when it is first used.
GpuResult HipDriver::open(int) { return {}; }

GpuResult HipDriver::enter(int device, void *&previous) {
  int before = 0;
  GpuResult result = INTARSIA_CALL(getDevice, &before);
  previous = reinterpret_cast<void *>(intptr_t(before));
  return result.ok() && before != device ? INTARSIA_CALL(setDevice, device) : result;
}

void HipDriver::leave(int device, void *previous) {
  if (int before = int(reinterpret_cast<intptr_t>(previous)); before != device)
    (void)api_.setDevice(before); // it was the thread's, and can be it again
}

// ---- Streams and events ---------------------------------------------------------------------------------------

GpuResult HipDriver::createStream(void *&stream) { return INTARSIA_CALL(createStream, &stream, streamNonBlocking); }

GpuResult HipDriver::createEvent(bool isTimed, void *&event) {
  return INTARSIA_CALL(createEvent, &event, isTimed ? 0 : eventDisableTiming);
}

void HipDriver::destroyEvent(void *event) { (void)api_.destroyEvent(event); }

GpuResult HipDriver::recordEvent(void *event, void *stream) { return INTARSIA_CALL(recordEvent, event, stream); }

GpuResult HipDriver::streamWait(void *stream, void *event) { return INTARSIA_CALL(streamWait, stream, event, 0); }

GpuResult HipDriver::queryEvent(void *event) { return INTARSIA_CALL(queryEvent, event); }

GpuResult HipDriver::synchronizeEvent(void *event) { return INTARSIA_CALL(synchronizeEvent, event); }

GpuResult HipDriver::elapsed(void *begin, void *end, float &milliseconds) {
  return INTARSIA_CALL(elapsed, &milliseconds, begin, end);
}

// ---- Memory ---------------------------------------------------------------------------------------------------

/// The library's functions take no pointers to constants, but write to none of these.
static void *addressOf(const void *pointer) { return const_cast<void *>(pointer); }

GpuResult HipDriver::createPool(int device, void *&pool) {
  int isSupported = 0;
  if (!api_.createPool || !api_.setPoolAttribute || !api_.trimPool || !api_.allocateFromPool || !api_.freeToPool)
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createPool};
  GpuResult result = INTARSIA_CALL(deviceAttribute, &isSupported, attributeMemoryPoolsSupported, device);
  if (result.code == errorInvalidValue || (result.ok() && !isSupported)) // a library that does not know the question
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createPool};
  PoolProperties properties;
  properties.location = device;
  if (result.ok())
    result = INTARSIA_CALL(createPool, &pool, &properties);
  uint64_t keepAll = ~uint64_t(0); // until a lack of memory, when the pool is trimmed
  if (result.ok())
    result = INTARSIA_CALL(setPoolAttribute, pool, poolReleaseThreshold, &keepAll);
  return result;
}

GpuResult HipDriver::trimPool(void *pool) { return INTARSIA_CALL(trimPool, pool, 0); }

GpuResult HipDriver::allocate(void *pool, uint64_t bytes, void *stream, void *&address) {
  return pool ? INTARSIA_CALL(allocateFromPool, &address, bytes, pool, stream)
              : INTARSIA_CALL(allocate, &address, bytes);
}

GpuResult HipDriver::free(void *pool, void *address, void *stream) {
  return pool ? INTARSIA_CALL(freeToPool, address, stream) : INTARSIA_CALL(free, address);
}

GpuResult HipDriver::memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) {
  size_t free = 0, total = 0;
  GpuResult result = INTARSIA_CALL(memoryInfo, &free, &total);
  freeBytes = free;
  totalBytes = total;
  return result;
}

GpuResult HipDriver::allocateHost(uint64_t bytes, void *&address) {
  return INTARSIA_CALL(allocateHost, &address, bytes, hostPortable);
}

// ---- Work and code --------------------------------------------------------------------------------------------

GpuResult HipDriver::copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyToDevice, destination, addressOf(source), bytes, stream);
}

GpuResult HipDriver::copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyToHost, destination, addressOf(source), bytes, stream);
}

GpuResult HipDriver::copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyOnDevice, destination, addressOf(source), bytes, stream);
}

GpuResult HipDriver::copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                                uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyToPeer, destination, destinationDevice, source, sourceDevice, bytes, stream);
}

GpuResult HipDriver::fill(void *destination, uint8_t value, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(fill, destination, value, bytes, stream);
}

GpuResult HipDriver::launch(void *function, const GpuGrid &grid, void *stream, void **arguments) {
  return INTARSIA_CALL(launch, function, grid.blocks[0], grid.blocks[1], grid.blocks[2], grid.threads[0],
                       grid.threads[1], grid.threads[2], grid.sharedBytes, stream, arguments, nullptr);
}

GpuResult HipDriver::describeTensor(void *, const GpuTensorBox &, GpuTensorDescriptor &) {
  return {GpuFailure::Unsupported, errorNotSupported, "tensor maps"};
}

GpuResult HipDriver::loadModule(const std::string &code, std::string &log, void *&module) {
  log.clear(); // the library compiles nothing
  return INTARSIA_CALL(loadModule, &module, code.data());
}

void HipDriver::unloadModule(void *module) { (void)api_.unloadModule(module); }

GpuResult HipDriver::findFunction(void *module, const char *name, void *&function) {
  return INTARSIA_CALL(findFunction, &function, module, name);
}

/// Does nothing: each block may have all that the device has.
GpuResult HipDriver::allowShared(void *, uint32_t) { return {}; }

// ---- Graphs ---------------------------------------------------------------------------------------------------

/// Returns a launch as graphs take it.
static KernelNode nodeOf(void *function, const GpuGrid &grid, void **arguments) {
  KernelNode node;
  node.function = function;
  for (size_t i = 0; i < 3; ++i) {
    node.blocks[i] = grid.blocks[i];
    node.threads[i] = grid.threads[i];
  }
  node.sharedBytes = grid.sharedBytes;
  node.arguments = arguments;
  return node;
}

GpuResult HipDriver::createGraph(void *&graph) {
  if (!api_.createGraph || !api_.addGraphNode || !api_.instantiateGraph || !api_.setGraphNode || !api_.launchGraph ||
      !api_.destroyInstance || !api_.destroyGraph)
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createGraph};
  return INTARSIA_CALL(createGraph, &graph, 0);
}

GpuResult HipDriver::addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                                  void *&node) {
  KernelNode launch = nodeOf(function, grid, arguments);
  return INTARSIA_CALL(addGraphNode, &node, graph, &previous, previous ? 1 : 0, &launch);
}

GpuResult HipDriver::instantiateGraph(void *graph, void *&instance) {
  return INTARSIA_CALL(instantiateGraph, &instance, graph, 0);
}

GpuResult HipDriver::setGraphNode(void *instance, void *node, void *function, const GpuGrid &grid, void **arguments) {
  KernelNode launch = nodeOf(function, grid, arguments);
  return INTARSIA_CALL(setGraphNode, instance, node, &launch);
}

GpuResult HipDriver::launchGraph(void *instance, void *stream) { return INTARSIA_CALL(launchGraph, instance, stream); }

void HipDriver::destroyGraph(void *graph, void *instance) {
  if (instance)
    (void)api_.destroyInstance(instance);
  if (graph)
    (void)api_.destroyGraph(graph);
}

// ---- Other processes ------------------------------------------------------------------------------------------

const nccl::Api *HipDriver::exchangeLibrary(std::string &problem) {
  static nccl::Api api;
  static const Status found = nccl::Api::find({"librccl.so.1", "/opt/rocm/lib/librccl.so.1"}, "RCCL", api);
  problem = found.message();
  return found.ok() ? &api : nullptr;
}

} // namespace intarsia::runtime::hip
