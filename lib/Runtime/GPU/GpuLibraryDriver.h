//===- GpuLibraryDriver.h - A driver over the functions of a vendor's library -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPULIBRARYDRIVER_H
#define INTARSIA_RUNTIME_GPU_GPULIBRARYDRIVER_H

#include "lib/Runtime/GPU/GpuApi.h"
#include "lib/Runtime/GPU/GpuDevice.h"
#include "lib/Support/Status.h"

#include <initializer_list>
#include <memory>
#include <type_traits>

namespace intarsia::runtime::gpu {

/// Calls a function of the table and returns what it returned, with the function's symbol.
#define INTARSIA_GPU_CALL(function, ...) resultOf(api_.function(__VA_ARGS__), Symbols::function)

/// The calls that the libraries of CUDA and HIP name differently and mean alike (GpuFunctions.def). `Api` is the table
/// of functions of a library, with the types of its arguments; `Symbols` has their names. A vendor's driver adds the
/// rest.
template <typename Api, typename Symbols> class GpuLibraryDriver : public GpuDriver {
public:
  explicit GpuLibraryDriver(const Api &api) : api_(api) {}

  GpuResult countDevices(int &count) override { return count = count_, GpuResult(); }

  GpuResult createStream(void *&stream) override { return INTARSIA_GPU_CALL(createStream, &stream, streamNonBlocking); }
  GpuResult createEvent(bool isTimed, void *&event) override {
    return INTARSIA_GPU_CALL(createEvent, &event, isTimed ? 0 : eventDisableTiming);
  }
  void destroyEvent(void *event) override { (void)api_.destroyEvent(event); }
  GpuResult recordEvent(void *event, void *stream) override { return INTARSIA_GPU_CALL(recordEvent, event, stream); }
  GpuResult streamWait(void *stream, void *event) override { return INTARSIA_GPU_CALL(streamWait, stream, event, 0); }
  GpuResult queryEvent(void *event) override { return INTARSIA_GPU_CALL(queryEvent, event); }
  GpuResult synchronizeEvent(void *event) override { return INTARSIA_GPU_CALL(synchronizeEvent, event); }
  GpuResult elapsed(void *begin, void *end, float &milliseconds) override {
    return INTARSIA_GPU_CALL(elapsed, &milliseconds, begin, end);
  }

  GpuResult createPool(int device, void *&pool) override {
    int number = 0, isSupported = 0;
    if (!api_.createPool || !api_.setPoolAttribute || !api_.trimPool || !api_.allocateFromPool || !api_.freeToPool)
      return unsupported(Symbols::createPool);
    GpuResult result = numberOf(device, number);
    if (result.ok())
      result = INTARSIA_GPU_CALL(deviceAttribute, &isSupported, Api::poolsAttribute, number);
    if (result.code == errorInvalidValue || (result.ok() && !isSupported)) // a library that does not know the question
      return unsupported(Symbols::createPool);
    PoolProperties properties;
    properties.location = number;
    if (result.ok())
      result = INTARSIA_GPU_CALL(createPool, &pool, &properties);
    uint64_t keepAll = ~uint64_t(0); // until a lack of memory, when the pool is trimmed
    if (result.ok())
      result = INTARSIA_GPU_CALL(setPoolAttribute, pool, poolReleaseThreshold, &keepAll);
    return result;
  }
  GpuResult trimPool(void *pool) override { return INTARSIA_GPU_CALL(trimPool, pool, 0); }
  GpuResult allocate(void *pool, uint64_t bytes, void *stream, void *&address) override {
    Address made = {};
    GpuResult result = pool ? INTARSIA_GPU_CALL(allocateFromPool, &made, bytes, pool, stream)
                            : INTARSIA_GPU_CALL(allocate, &made, bytes);
    address = reinterpret_cast<void *>(uintptr_t(made));
    return result;
  }
  GpuResult free(void *pool, void *address, void *stream) override {
    return pool ? INTARSIA_GPU_CALL(freeToPool, addressOf(address), stream)
                : INTARSIA_GPU_CALL(free, addressOf(address));
  }
  GpuResult memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) override {
    size_t free = 0, total = 0;
    GpuResult result = INTARSIA_GPU_CALL(memoryInfo, &free, &total);
    freeBytes = free;
    totalBytes = total;
    return result;
  }
  GpuResult allocateHost(uint64_t bytes, void *&address) override {
    return INTARSIA_GPU_CALL(allocateHost, &address, bytes, hostPortable);
  }

  GpuResult copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) override {
    return INTARSIA_GPU_CALL(copyToDevice, addressOf(destination), const_cast<void *>(source), bytes, stream);
  }
  GpuResult copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) override {
    return INTARSIA_GPU_CALL(copyToHost, destination, addressOf(source), bytes, stream);
  }
  GpuResult copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) override {
    return INTARSIA_GPU_CALL(copyOnDevice, addressOf(destination), addressOf(source), bytes, stream);
  }
  GpuResult fill(void *destination, uint8_t value, uint64_t bytes, void *stream) override {
    return INTARSIA_GPU_CALL(fill, addressOf(destination), value, bytes, stream);
  }
  GpuResult launch(void *function, const GpuGrid &grid, void *stream, void **arguments) override {
    return INTARSIA_GPU_CALL(launch, function, grid.blocks[0], grid.blocks[1], grid.blocks[2], grid.threads[0],
                             grid.threads[1], grid.threads[2], grid.sharedBytes, stream, arguments, nullptr);
  }
  void unloadModule(void *module) override { (void)api_.unloadModule(module); }
  GpuResult findFunction(void *module, const char *name, void *&function) override {
    return INTARSIA_GPU_CALL(findFunction, &function, module, name);
  }

  GpuResult createGraph(void *&graph) override {
    if (!api_.createGraph || !api_.addGraphNode || !api_.instantiateGraph || !api_.setGraphNode || !api_.launchGraph ||
        !api_.destroyInstance || !api_.destroyGraph)
      return unsupported(Symbols::createGraph);
    return INTARSIA_GPU_CALL(createGraph, &graph, 0);
  }
  GpuResult addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                         void *&node) override {
    auto launch = nodeOf(function, grid, arguments);
    return INTARSIA_GPU_CALL(addGraphNode, &node, graph, &previous, previous ? 1 : 0, &launch);
  }
  GpuResult instantiateGraph(void *graph, void *&instance) override {
    return INTARSIA_GPU_CALL(instantiateGraph, &instance, graph, 0);
  }
  GpuResult setGraphNode(void *instance, void *node, void *function, const GpuGrid &grid, void **arguments) override {
    auto launch = nodeOf(function, grid, arguments);
    return INTARSIA_GPU_CALL(setGraphNode, instance, node, &launch);
  }
  GpuResult launchGraph(void *instance, void *stream) override {
    return INTARSIA_GPU_CALL(launchGraph, instance, stream);
  }
  void destroyGraph(void *graph, void *instance) override {
    if (instance)
      (void)api_.destroyInstance(instance);
    if (graph)
      (void)api_.destroyGraph(graph);
  }

protected:
  using Address = typename Api::Address;
  using AttributeValues = std::initializer_list<std::pair<typename Api::AttributeNumber, int &>>;

  static GpuResult resultOf(Result result, const char *call) { return {failureOf(result), result, call}; }
  static GpuResult unsupported(const char *call) { return {GpuFailure::Unsupported, errorNotSupported, call}; }
  /// Returns an address as the library takes it, which writes to no constants.
  static Address addressOf(const void *pointer) {
    if constexpr (std::is_pointer_v<Address>)
      return const_cast<void *>(pointer);
    else
      return Address(reinterpret_cast<uintptr_t>(pointer));
  }

  /// Starts the library, and reads its version and how many devices there are.
  GpuResult start(Result (*readVersion)(int *), const char *call) {
    GpuResult result = INTARSIA_GPU_CALL(init, 0);
    if (result.ok())
      result = resultOf(readVersion(&version_), call);
    return result.ok() ? INTARSIA_GPU_CALL(deviceCount, &count_) : result;
  }
  /// Finds the number that the library has for a device.
  virtual GpuResult numberOf(int device, int &number) { return number = device, GpuResult(); }
  /// Reads what both libraries say of a device, and attributes.
  GpuResult readFacts(int device, GpuProperties &properties, AttributeValues attributes) {
    int number = 0;
    char name[256] = "", pciBus[64] = "";
    size_t bytes = 0;
    GpuResult result = numberOf(device, number);
    if (result.ok())
      result = INTARSIA_GPU_CALL(deviceName, name, int(sizeof(name)), number);
    if (result.ok())
      result = INTARSIA_GPU_CALL(deviceMemory, &bytes, number);
    if (result.ok())
      result = INTARSIA_GPU_CALL(devicePciBus, pciBus, int(sizeof(pciBus)), number);
    for (auto &[attribute, value] : attributes)
      if (result.ok())
        result = INTARSIA_GPU_CALL(deviceAttribute, &value, attribute, number);
    properties.name = name;
    properties.pciBus = pciBus;
    properties.memoryBytes = bytes;
    return result;
  }

  /// Finds the vendor's library for exchanges between processes, once.
  static const nccl::Api *findExchange(const std::vector<std::string> &names, const char *what, std::string &problem) {
    static nccl::Api api;
    static const Status found = nccl::Api::find(names, what, api);
    problem = found.message();
    return found.ok() ? &api : nullptr;
  }

  const Api api_;
  int version_ = 0, count_ = 0;

private:
  /// Returns a launch as graphs take it.
  static typename Api::Node nodeOf(void *function, const GpuGrid &grid, void **arguments) {
    typename Api::Node node;
    node.function = function;
    for (size_t i = 0; i < 3; ++i) {
      node.blocks[i] = grid.blocks[i];
      node.threads[i] = grid.threads[i];
    }
    node.sharedBytes = grid.sharedBytes;
    node.arguments = arguments;
    return node;
  }
};

/// Looks for a library, starts it and returns its devices, which use the driver until the process ends.
template <typename Driver, typename Api> FoundGpus findGpus() {
  Api api;
  if (Status status = Api::find(api); !status.ok())
    return {{}, status.message()};
  auto driver = std::make_unique<Driver>(api);
  if (Status status = driver->init(); !status.ok())
    return {{}, status.message()};
  return makeGpuDevices(*driver.release());
}

} // namespace intarsia::runtime::gpu

#endif
