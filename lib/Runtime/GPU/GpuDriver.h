//===- GpuDriver.h - What a driver of GPUs does for the runtime -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUDA and HIP have the same calls under different names. Each is one class behind this interface, and so is the driver
// of the unit tests, which needs no GPU. Nothing here decides anything: GpuDevice does.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUDRIVER_H
#define INTARSIA_RUNTIME_GPU_GPUDRIVER_H

#include "lib/Formats/GpuObject.h"
#include "lib/Runtime/GPU/NcclApi.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// The kinds of failures of a driver's calls that the runtime tells apart.
enum class GpuFailure {
  None,
  NotReady,    ///< the event has not happened yet; no error
  OutOfMemory, ///< of the device or of pinned memory
  Lost,        ///< the device, or this process's use of it, has ended: no later call can succeed
  OldDriver,   ///< the driver is older than the PTX
  NoCode,      ///< the code is not for this device
  BadCode,     ///< the code is damaged, or the driver cannot compile it
  NotFound,    ///< there is no such function
  Unsupported, ///< the driver lacks the call, or the device the feature
  Other
};

/// The result of a call of a driver.
struct GpuResult {
  GpuFailure failure = GpuFailure::None;
  int code = 0;          ///< the driver's number
  const char *call = ""; ///< name of the driver's function

  bool ok() const { return failure == GpuFailure::None; }
};

/// The facts of a device that a driver tells.
struct GpuProperties {
  std::string name;                 ///< "NVIDIA H200"
  std::string architecture;         ///< "sm_90", "gfx942": as variants of the device's target are named
  std::string pciBus;               ///< "0000:1b:00.0"
  std::vector<std::string> details; ///< other facts, for people
  uint64_t memoryBytes = 0;
  uint64_t sharedBytes = 0;        ///< the most shared memory that a block can have
  uint64_t defaultSharedBytes = 0; ///< the most dynamic shared memory that a function has unless it is allowed more
  int32_t processors = 0;          ///< streaming multiprocessors or compute units
  int32_t warpThreads = 0;
};

/// The shape of a launch.
struct GpuGrid {
  std::array<uint32_t, 3> blocks = {};
  std::array<uint32_t, 3> threads = {};
  uint32_t sharedBytes = 0; ///< dynamic shared memory
};

/// A tensor map as a function takes it, by value: bits that the driver makes (CUDA driver API, CUtensorMap).
using GpuTensorDescriptor = std::array<uint64_t, 16>;

/// A matrix with rows one after the other, and the boxes of it that are copied: GpuTensorMap, computed for a launch.
struct GpuTensorBox {
  uint64_t rows = 0, columns = 0;
  uint32_t elementBytes = 0, boxRows = 0, boxColumns = 0, swizzleBytes = 0;
};

/// The calls of one driver. Handles are the driver's. All members may be called from several threads at once. Those
/// that take no device act on the one that the calling thread has entered.
class GpuDriver {
public:
  virtual ~GpuDriver() = default;

  // ---- The driver ---------------------------------------------------------------------------------------------

  /// Returns the kind of its devices: "cuda".
  virtual const char *kind() const = 0;
  /// Returns the driver's name and version: "CUDA 12.8".
  virtual std::string version() const = 0;
  /// Returns the newest version of PTX that the driver compiles: "8.7"; empty if that is not known.
  virtual std::string ptxVersion() const = 0;
  /// Returns the type of the devices' memory in DLPack.
  virtual int32_t dlpackType() const = 0;
  /// Returns the name and meaning of what a call returned.
  virtual std::string explain(const GpuResult &result) const = 0;

  // ---- Devices ------------------------------------------------------------------------------------------------

  virtual GpuResult countDevices(int &count) = 0;
  /// Reads what a device is, without using it.
  virtual GpuResult readProperties(int device, GpuProperties &properties) = 0;
  /// Returns how well code for one architecture runs on a device of another, 0 the best; none if it does not run.
  virtual std::optional<int> rank(GpuCodeKind kind, const std::string &code, const std::string &device) const = 0;
  /// Prepares a device for use by this process.
  virtual GpuResult open(int device) = 0;
  /// Makes a device that was opened the calling thread's own. `previous` is for leave().
  virtual GpuResult enter(int device, void *&previous) = 0;
  /// Gives the thread back the device that it had before.
  virtual void leave(int device, void *previous) = 0;

  // ---- Streams and events -------------------------------------------------------------------------------------

  virtual GpuResult createStream(void *&stream) = 0;
  /// Makes an event; only a timed one can be given to elapsed().
  virtual GpuResult createEvent(bool isTimed, void *&event) = 0;
  virtual void destroyEvent(void *event) = 0;
  virtual GpuResult recordEvent(void *event, void *stream) = 0;
  virtual GpuResult streamWait(void *stream, void *event) = 0;
  /// Returns NotReady if the event has not happened.
  virtual GpuResult queryEvent(void *event) = 0;
  virtual GpuResult synchronizeEvent(void *event) = 0;
  virtual GpuResult elapsed(void *begin, void *end, float &milliseconds) = 0;

  // ---- Memory -------------------------------------------------------------------------------------------------

  /// Makes a pool of the device's memory, which keeps what is freed; Unsupported if there are no pools.
  virtual GpuResult createPool(int device, void *&pool) = 0;
  /// Gives the memory that a pool keeps back to the device.
  virtual GpuResult trimPool(void *pool) = 0;
  /// Allocates in the stream's order from a pool; without a pool at once.
  virtual GpuResult allocate(void *pool, uint64_t bytes, void *stream, void *&address) = 0;
  /// Frees in the stream's order what came from a pool; without a pool when all work of the device is done.
  virtual GpuResult free(void *pool, void *address, void *stream) = 0;
  virtual GpuResult memoryInfo(uint64_t &freeBytes, uint64_t &totalBytes) = 0;
  /// Allocates pinned memory of the host.
  virtual GpuResult allocateHost(uint64_t bytes, void *&address) = 0;

  // ---- Work ---------------------------------------------------------------------------------------------------

  /// Starts a copy from pinned memory of the host.
  virtual GpuResult copyToDevice(void *destination, const void *source, uint64_t bytes, void *stream) = 0;
  /// Starts a copy to pinned memory of the host.
  virtual GpuResult copyToHost(void *destination, const void *source, uint64_t bytes, void *stream) = 0;
  virtual GpuResult copyOnDevice(void *destination, const void *source, uint64_t bytes, void *stream) = 0;
  /// Starts a copy from the memory of one device to that of another, which have both been opened.
  virtual GpuResult copyToPeer(void *destination, int destinationDevice, const void *source, int sourceDevice,
                               uint64_t bytes, void *stream) = 0;
  virtual GpuResult fill(void *destination, uint8_t value, uint64_t bytes, void *stream) = 0;
  virtual GpuResult launch(void *function, const GpuGrid &grid, void *stream, void **arguments) = 0;

  /// Returns how tensor copies read the matrix at an address; Unsupported if the driver has no such copies.
  virtual GpuResult describeTensor(void *address, const GpuTensorBox &box, GpuTensorDescriptor &descriptor) = 0;

  // ---- Graphs of launches: Unsupported if the driver has none ---------------------------------------------------

  virtual GpuResult createGraph(void *&graph) = 0;
  /// Adds a launch behind another one, `previous`, which may be null. The arguments are copied.
  virtual GpuResult addGraphNode(void *graph, void *previous, void *function, const GpuGrid &grid, void **arguments,
                                 void *&node) = 0;
  virtual GpuResult instantiateGraph(void *graph, void *&instance) = 0;
  /// Gives a launch of an instance other arguments, from its next start on.
  virtual GpuResult setGraphNode(void *instance, void *node, void *function, const GpuGrid &grid, void **arguments) = 0;
  virtual GpuResult launchGraph(void *instance, void *stream) = 0;
  /// Frees a graph and its instance, which may be null; what has been started goes on.
  virtual void destroyGraph(void *graph, void *instance) = 0;

  // ---- Code ---------------------------------------------------------------------------------------------------

  /// Loads code. `log` receives what the driver's compiler says about it.
  virtual GpuResult loadModule(const std::string &code, std::string &log, void *&module) = 0;
  virtual void unloadModule(void *module) = 0;
  virtual GpuResult findFunction(void *module, const char *name, void *&function) = 0;
  /// Allows launches of a function with so much dynamic shared memory.
  virtual GpuResult allowShared(void *function, uint32_t bytes) = 0;

  // ---- Other processes ------------------------------------------------------------------------------------------

  /// Finds the library by which devices of different processes exchange data, once; null: `problem` says why.
  virtual const nccl::Api *exchangeLibrary(std::string &problem) = 0;
};

} // namespace intarsia::runtime

#endif
