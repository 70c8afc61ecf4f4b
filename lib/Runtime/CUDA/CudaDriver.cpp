//===- CudaDriver.cpp - The CUDA driver -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDriver.h"

#include "lib/Formats/DLPack.h"
#include "lib/Runtime/CUDA/CudaArchitecture.h"
#include "lib/Runtime/GPU/GpuLibrary.h"

#include <algorithm>

namespace intarsia::runtime::cuda {

Status Api::find(Api &api) {
  GpuLibrary library;
  ITX_RETURN_IF_ERROR(GpuLibrary::open({"libcuda.so.1", "libcuda.so"}, "CUDA driver", library));
  Api found;
#define INTARSIA_CUDA_FUNCTION(name, symbol, isRequired, arguments) library.bind(#symbol, found.name, isRequired);
#include "lib/Runtime/CUDA/CudaFunctions.def"
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
  case errorUnsupportedPtxVersion:
    return GpuFailure::OldDriver;
  case errorNoBinaryForGpu:
  case errorJitCompilerNotFound:
  case errorJitCompilationDisabled:
    return GpuFailure::NoCode;
  case errorInvalidImage:
  case errorInvalidPtx:
  case errorInvalidSource:
    return GpuFailure::BadCode;
  case errorNotFound:
    return GpuFailure::NotFound;
  case errorNotSupported:
    return GpuFailure::Unsupported;
  // After these a context returns the same error from every call.
  case errorDeinitialized:
  case errorEccUncorrectable:
  case errorNvlinkUncorrectable:
  case errorIllegalAddress:
  case errorLaunchTimeout:
  case errorContextIsDestroyed:
  case errorAssert:
  case errorHardwareStack:
  case errorIllegalInstruction:
  case errorMisalignedAddress:
  case errorInvalidAddressSpace:
  case errorInvalidPc:
  case errorLaunchFailed:
  case errorMpsClientTerminated:
  case errorExternalDevice:
    return GpuFailure::Lost;
  default:
    return GpuFailure::Other;
  }
}

/// Calls a function and returns what it returned, with the function's symbol.
#define INTARSIA_CALL(function, ...) resultOf(api_.function(__VA_ARGS__), Symbols::function)

static GpuResult resultOf(Result result, const char *call) { return {failureOf(result), result, call}; }

std::string CudaDriver::explain(const GpuResult &result) const {
  const char *name = nullptr, *text = nullptr;
  if (api_.errorName(result.code, &name) != 0 || !name)
    name = "an unknown error";
  if (api_.errorText(result.code, &text) != 0 || !text)
    text = "";
  return format("%s (%d) at %s: %s", name, result.code, result.call, text);
}

// ---- The driver and its devices -------------------------------------------------------------------------------

Status CudaDriver::init() {
  GpuResult result = INTARSIA_CALL(init, 0);
  int count = 0;
  if (result.ok())
    result = INTARSIA_CALL(driverVersion, &version_);
  if (result.ok())
    result = INTARSIA_CALL(deviceCount, &count);
  if (result.code == errorStubLibrary)
    return error(ITX_NOT_FOUND,
                 "there is no CUDA driver: the libcuda.so that was found is the toolkit's, for linking; is "
                 "its folder in LD_LIBRARY_PATH?");
  if (result.code == errorNoDevice || (result.ok() && count == 0))
    return error(ITX_NOT_FOUND, "the CUDA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)");
  if (!result.ok())
    return error(ITX_UNSUPPORTED, "the CUDA driver does not start: %s", explain(result).c_str());
  contexts_.assign(size_t(count), nullptr);
  return Status::success();
}

std::string CudaDriver::version() const { return format("CUDA %d.%d", version_ / 1000, version_ % 1000 / 10); }

std::string CudaDriver::ptxVersion() const { return newestPtx(version_); }

int32_t CudaDriver::dlpackType() const { return kDLCUDA; }

GpuResult CudaDriver::countDevices(int &count) {
  count = int(contexts_.size());
  return {};
}

GpuResult CudaDriver::readProperties(int device, GpuProperties &properties) {
  DeviceNumber number = 0;
  GpuResult result = INTARSIA_CALL(deviceOf, &number, device);
  char name[256] = "", pciBus[64] = "";
  size_t bytes = 0;
  if (result.ok())
    result = INTARSIA_CALL(deviceName, name, int(sizeof(name)), number);
  if (result.ok())
    result = INTARSIA_CALL(deviceMemory, &bytes, number);
  if (result.ok())
    result = INTARSIA_CALL(devicePciBus, pciBus, int(sizeof(pciBus)), number);
  int major = 0, minor = 0, shared = 0, allowedShared = 0;
  struct {
    Attribute attribute;
    int &value;
  } attributes[] = {{attributeComputeCapabilityMajor, major},
                    {attributeComputeCapabilityMinor, minor},
                    {attributeMaxSharedMemoryPerBlock, shared},
                    {attributeMaxSharedMemoryPerBlockOptin, allowedShared},
                    {attributeMultiprocessorCount, properties.processors},
                    {attributeWarpSize, properties.warpThreads}};
  for (auto &[attribute, value] : attributes)
    if (result.ok())
      result = INTARSIA_CALL(deviceAttribute, &value, attribute, number);
  properties.name = name;
  properties.pciBus = pciBus;
  properties.memoryBytes = bytes;
  properties.architecture = format("sm_%d%d", major, minor);
  properties.defaultSharedBytes = uint64_t(shared);
  properties.sharedBytes = uint64_t(std::max(shared, allowedShared));
  properties.details = {format("compute capability %d.%d", major, minor), properties.pciBus};
  return result;
}

std::optional<int> CudaDriver::rank(GpuCodeKind kind, const std::string &code, const std::string &device) const {
  return rankCode(kind, code, device);
}

GpuResult CudaDriver::open(int device) {
  std::lock_guard lock(mutex_);
  DeviceNumber number = 0;
  GpuResult result = INTARSIA_CALL(deviceOf, &number, device);
  if (result.ok() && !contexts_[size_t(device)])
    result = INTARSIA_CALL(retainContext, &contexts_[size_t(device)], number);
  return result;
}

GpuResult CudaDriver::enter(int device, void *&) { return INTARSIA_CALL(pushContext, contexts_[size_t(device)]); }

void CudaDriver::leave(int, void *) {
  Handle context = nullptr;
  (void)api_.popContext(&context); // what was pushed can be popped
}

// ---- Streams and events ---------------------------------------------------------------------------------------

GpuResult CudaDriver::createStream(void *&stream) { return INTARSIA_CALL(createStream, &stream, streamNonBlocking); }

GpuResult CudaDriver::createEvent(bool isTimed, void *&event) {
  return INTARSIA_CALL(createEvent, &event, isTimed ? 0 : eventDisableTiming);
}

void CudaDriver::destroyEvent(void *event) { (void)api_.destroyEvent(event); }

GpuResult CudaDriver::recordEvent(void *event, void *stream) { return INTARSIA_CALL(recordEvent, event, stream); }

GpuResult CudaDriver::streamWait(void *stream, void *event) { return INTARSIA_CALL(streamWait, stream, event, 0); }

GpuResult CudaDriver::queryEvent(void *event) { return INTARSIA_CALL(queryEvent, event); }

GpuResult CudaDriver::synchronizeEvent(void *event) { return INTARSIA_CALL(synchronizeEvent, event); }

GpuResult CudaDriver::elapsed(void *begin, void *end, float &milliseconds) {
  return INTARSIA_CALL(elapsed, &milliseconds, begin, end);
}

// ---- Memory ---------------------------------------------------------------------------------------------------

static Address addressOf(const void *pointer) { return Address(reinterpret_cast<uintptr_t>(pointer)); }

GpuResult CudaDriver::createPool(int device, void *&pool) {
  DeviceNumber number = 0;
  int isSupported = 0;
  if (!api_.createPool || !api_.setPoolAttribute || !api_.trimPool || !api_.allocateFromPool || !api_.freeToPool)
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createPool};
  GpuResult result = INTARSIA_CALL(deviceOf, &number, device);
  if (result.ok())
    result = INTARSIA_CALL(deviceAttribute, &isSupported, attributeMemoryPoolsSupported, number);
  if (result.code == errorInvalidValue || (result.ok() && !isSupported)) // a driver that does not know the question
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createPool};
  PoolProperties properties;
  properties.location = number;
  if (result.ok())
    result = INTARSIA_CALL(createPool, &pool, &properties);
  uint64_t keepAll = ~uint64_t(0); // until a lack of memory, when the pool is trimmed
  if (result.ok())
    result = INTARSIA_CALL(setPoolAttribute, pool, poolReleaseThreshold, &keepAll);
  return result;
}

GpuResult CudaDriver::trimPool(void *pool) { return INTARSIA_CALL(trimPool, pool, 0); }

GpuResult CudaDriver::allocate(void *pool, uint64_t bytes, void *stream, void *&address) {
  Address made = 0;
  GpuResult result =
      pool ? INTARSIA_CALL(allocateFromPool, &made, bytes, pool, stream) : INTARSIA_CALL(allocate, &made, bytes);
  address = reinterpret_cast<void *>(uintptr_t(made));
  return result;
}

GpuResult CudaDriver::free(void *pool, void *address, void *stream) {
  return pool ? INTARSIA_CALL(freeToPool, addressOf(address), stream) : INTARSIA_CALL(free, addressOf(address));
}

GpuResult CudaDriver::memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) {
  size_t free = 0, total = 0;
  GpuResult result = INTARSIA_CALL(memoryInfo, &free, &total);
  freeBytes = free;
  totalBytes = total;
  return result;
}

GpuResult CudaDriver::allocateHost(uint64_t bytes, void *&address) {
  return INTARSIA_CALL(allocateHost, &address, bytes, hostPortable);
}

// ---- Work and code --------------------------------------------------------------------------------------------

GpuResult CudaDriver::copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyToDevice, addressOf(destination), source, bytes, stream);
}

GpuResult CudaDriver::copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyToHost, destination, addressOf(source), bytes, stream);
}

GpuResult CudaDriver::copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(copyOnDevice, addressOf(destination), addressOf(source), bytes, stream);
}

GpuResult CudaDriver::copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                                 uint64_t bytes, void *stream) {
  Handle to = nullptr, from = nullptr;
  {
    std::lock_guard lock(mutex_); // other threads may be opening devices
    to = contexts_[size_t(destinationDevice)];
    from = contexts_[size_t(sourceDevice)];
  }
  return INTARSIA_CALL(copyToPeer, addressOf(destination), to, addressOf(source), from, bytes, stream);
}

GpuResult CudaDriver::fill(void *destination, uint8_t value, uint64_t bytes, void *stream) {
  return INTARSIA_CALL(fill, addressOf(destination), value, bytes, stream);
}

GpuResult CudaDriver::launch(void *function, const GpuGrid &grid, void *stream, void **arguments) {
  return INTARSIA_CALL(launch, function, grid.blocks[0], grid.blocks[1], grid.blocks[2], grid.threads[0],
                       grid.threads[1], grid.threads[2], grid.sharedBytes, stream, arguments, nullptr);
}

GpuResult CudaDriver::describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) {
  if (!api_.encodeTensorMap)
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::encodeTensorMap};
  // The first dimension is that whose elements are neighbours. Strides are those of the others, in bytes.
  uint64_t extents[] = {box.columns, box.rows}, strides[] = {box.columns * box.elementBytes};
  unsigned sizes[] = {box.boxColumns, box.boxRows}, elementStrides[] = {1, 1};
  TensorElement element = box.elementBytes == 1 ? tensorUint8 : box.elementBytes == 2 ? tensorUint16 : tensorUint32;
  TensorSwizzle swizzle = box.swizzleBytes == 32   ? tensorSwizzle32
                          : box.swizzleBytes == 64 ? tensorSwizzle64
                                                   : tensorSwizzle128;
  TensorMap map;
  GpuResult result = INTARSIA_CALL(encodeTensorMap, &map, element, /*rank=*/2, address, extents, strides, sizes,
                                   elementStrides, tensorNotInterleaved, swizzle, tensorPromotion256, tensorFillZeros);
  std::copy(std::begin(map.opaque), std::end(map.opaque), descriptor.begin());
  return result;
}

GpuResult CudaDriver::loadModule(const std::string &code, std::string &log, void *&module) {
  char errors[8192] = "";
  JitOption options[] = {jitErrorLogBuffer, jitErrorLogBufferBytes};
  void *values[] = {errors, reinterpret_cast<void *>(uintptr_t(sizeof(errors) - 1))};
  GpuResult result = INTARSIA_CALL(loadModule, &module, code.c_str(), 2, options, values);
  log = errors;
  return result;
}

void CudaDriver::unloadModule(void *module) { (void)api_.unloadModule(module); }

GpuResult CudaDriver::findFunction(void *module, const char *name, void *&function) {
  return INTARSIA_CALL(findFunction, &function, module, name);
}

GpuResult CudaDriver::allowShared(void *function, uint32_t bytes) {
  return INTARSIA_CALL(setFunctionAttribute, function, functionMaxDynamicSharedBytes, int(bytes));
}

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

GpuResult CudaDriver::createGraph(void *&graph) {
  if (!api_.createGraph || !api_.addGraphNode || !api_.instantiateGraph || !api_.setGraphNode || !api_.launchGraph ||
      !api_.destroyInstance || !api_.destroyGraph)
    return {GpuFailure::Unsupported, errorNotSupported, Symbols::createGraph};
  return INTARSIA_CALL(createGraph, &graph, 0);
}

GpuResult CudaDriver::addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                                   void *&node) {
  KernelNode launch = nodeOf(function, grid, arguments);
  return INTARSIA_CALL(addGraphNode, &node, graph, &previous, previous ? 1 : 0, &launch);
}

GpuResult CudaDriver::instantiateGraph(void *graph, void *&instance) {
  return INTARSIA_CALL(instantiateGraph, &instance, graph, 0);
}

GpuResult CudaDriver::setGraphNode(void *instance, void *node, void *function, const GpuGrid &grid, void **arguments) {
  KernelNode launch = nodeOf(function, grid, arguments);
  return INTARSIA_CALL(setGraphNode, instance, node, &launch);
}

GpuResult CudaDriver::launchGraph(void *instance, void *stream) { return INTARSIA_CALL(launchGraph, instance, stream); }

void CudaDriver::destroyGraph(void *graph, void *instance) {
  if (instance)
    (void)api_.destroyInstance(instance);
  if (graph)
    (void)api_.destroyGraph(graph);
}

// ---- Other processes ------------------------------------------------------------------------------------------

const nccl::Api *CudaDriver::exchangeLibrary(std::string &problem) {
  static nccl::Api api;
  static const Status found = nccl::Api::find({"libnccl.so.2", "libnccl.so"}, "NCCL", api);
  problem = found.message();
  return found.ok() ? &api : nullptr;
}

} // namespace intarsia::runtime::cuda
