//===- FakeDriver.h - A driver of GPUs for tests, without a GPU ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_GPU_FAKEDRIVER_H
#define INTARSIA_TEST_UNIT_RUNTIME_GPU_FAKEDRIVER_H

#include "lib/Runtime/GPU/GpuDriver.h"
#include "lib/Runtime/Hosted/HostedMemory.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

namespace intarsia::testing {

/// The arguments of a launch, each as 64 bits. A tensor map is its address, rows, columns, bytes of an element, rows
/// and columns of a box, and swizzle.
using FakeArguments = std::vector<uint64_t>;

/// A driver whose devices are threads of the host: each stream is one, and starts each piece of work after a short
/// delay. Its memory has addresses that the host cannot follow. It is as strict as a driver may be: calls of a thread
/// that has entered no device fail, and so do copies between the device and memory that is not pinned.
class FakeDriver : public runtime::GpuDriver {
public:
  /// A function of the device. It gets host addresses for those device addresses that `memory` resolves, and returns
  /// false to fault.
  using Body = std::function<bool(FakeDriver &driver, const runtime::GpuGrid &grid, const FakeArguments &arguments)>;

  struct Settings {
    const char *kind = "fake";
    int devices = 1;
    bool hasPools = true;
    bool hasGraphs = true;
    bool hasTensorMaps = true;
    uint64_t memoryBytes = uint64_t(1) << 28;
    uint64_t otherProcessBytes = 0; ///< memory that other processes have taken
    uint64_t delayMicroseconds = 0; ///< the largest
  };

  FakeDriver() : FakeDriver(Settings()) {}
  explicit FakeDriver(const Settings &settings);
  ~FakeDriver() override;

  /// Adds a function with a number of arguments, which all modules have.
  void addFunction(const std::string &name, size_t arguments, Body body, size_t tensorMaps = 0);
  /// Lets the n-th call of a name from now on fail, n from 1 on.
  void failAt(const std::string &call, int n, runtime::GpuFailure failure);
  /// Lets no call fail any more.
  void clearFaults();
  /// Returns how often a call was made.
  int calls(const std::string &call) const;
  /// Returns the host's memory behind an address of the device; null if not all bytes are in one allocation.
  void *resolve(uint64_t address, uint64_t bytes) const;
  bool isLost() const { return isLost_; }
  /// Puts work on a stream; it returns false to fault.
  void putWork(void *stream, std::function<bool()> work);
  /// Gives the driver a library between processes.
  void setExchangeLibrary(const runtime::nccl::Api &api) { exchanges_ = api; }

  const char *kind() const override { return settings_.kind; }
  std::string version() const override { return "Fake 2.5"; }
  std::string ptxVersion() const override { return "8.2"; }
  int32_t dlpackType() const override { return 12; }
  std::string explain(const runtime::GpuResult &result) const override;
  runtime::GpuResult countDevices(int &count) override;
  runtime::GpuResult readProperties(int device, runtime::GpuProperties &properties) override;
  std::optional<int> rank(GpuCodeKind kind, const std::string &code, const std::string &device) const override;
  runtime::GpuResult open(int device) override;
  runtime::GpuResult enter(int device, void *&previous) override;
  void leave(int device, void *previous) override;
  runtime::GpuResult createStream(void *&stream) override;
  runtime::GpuResult createEvent(bool isTimed, void *&event) override;
  void destroyEvent(void *event) override;
  runtime::GpuResult recordEvent(void *event, void *stream) override;
  runtime::GpuResult streamWait(void *stream, void *event) override;
  runtime::GpuResult queryEvent(void *event) override;
  runtime::GpuResult synchronizeEvent(void *event) override;
  runtime::GpuResult elapsed(void *begin, void *end, float &milliseconds) override;
  runtime::GpuResult createPool(int device, void *&pool) override;
  runtime::GpuResult trimPool(void *pool) override;
  runtime::GpuResult allocate(void *pool, uint64_t bytes, void *stream, void *&address) override;
  runtime::GpuResult free(void *pool, void *address, void *stream) override;
  runtime::GpuResult memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) override;
  runtime::GpuResult allocateHost(uint64_t bytes, void *&address) override;
  runtime::GpuResult copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) override;
  runtime::GpuResult copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) override;
  runtime::GpuResult copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) override;
  runtime::GpuResult copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                                uint64_t bytes, void *stream) override;
  runtime::GpuResult fill(void *destination, uint8_t value, uint64_t bytes, void *stream) override;
  runtime::GpuResult launch(void *function, const runtime::GpuGrid &grid, void *stream, void **arguments) override;
  runtime::GpuResult describeTensor(void *address, const runtime::GpuTensorBox &box,
                                    runtime::GpuTensorDescriptor &descriptor) override;
  runtime::GpuResult createGraph(void *&graph) override;
  runtime::GpuResult addGraphNode(void *graph, void *previous, void *function, const runtime::GpuGrid &grid,
                                  void **arguments, void *&node) override;
  runtime::GpuResult instantiateGraph(void *graph, void *&instance) override;
  runtime::GpuResult setGraphNode(void *instance, void *node, void *function, const runtime::GpuGrid &grid,
                                  void **arguments) override;
  runtime::GpuResult launchGraph(void *instance, void *stream) override;
  void destroyGraph(void *graph, void *instance) override;
  runtime::GpuResult loadModule(const std::string &code, std::string &log, void *&module) override;
  void unloadModule(void *module) override;
  runtime::GpuResult findFunction(void *module, const char *name, void *&function) override;
  runtime::GpuResult allowShared(void *function, uint32_t bytes) override;
  const runtime::nccl::Api *exchangeLibrary(std::string &problem) override {
    problem = exchanges_ ? "" : "there is no FAKECCL: looked for libfakeccl.so";
    return exchanges_ ? &*exchanges_ : nullptr;
  }

private:
  struct Stream;
  struct Event;
  struct Node;
  struct Graph;
  struct Function {
    size_t arguments, tensorMaps;
    Body body;
    uint32_t allowedShared = 48 << 10;
  };

  /// Counts a call. Returns what it must return if it is to fail; `needsDevice` says that a device must be entered.
  runtime::GpuResult begin(const char *call, bool needsDevice = true);
  static bool isDone(Event &event, uint64_t recorded);
  bool isPinned(const void *address, uint64_t bytes) const;

  Settings settings_;
  std::optional<runtime::nccl::Api> exchanges_;
  std::unique_ptr<runtime::HostedMemory> memory_;
  std::atomic<bool> isLost_{false};
  mutable std::mutex mutex_; ///< of all that follows
  std::map<std::string, int> calls_;
  std::map<std::string, std::pair<int, runtime::GpuFailure>> faults_; ///< the number of the call that fails
  std::map<std::string, Function> functions_;
  std::map<const uint8_t *, std::unique_ptr<uint8_t[]>> pinned_;
  std::map<const uint8_t *, uint64_t> pinnedBytes_;
  std::map<void *, uint64_t> allocated_, kept_; ///< bytes in use, and bytes that pools keep
  std::map<void *, int> owners_;                ///< the device of each allocation
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

} // namespace intarsia::testing

#endif
