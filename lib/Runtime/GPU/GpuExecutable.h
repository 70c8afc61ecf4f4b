//===- GpuExecutable.h - Kernels that a GPU has loaded ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPUEXECUTABLE_H
#define INTARSIA_RUNTIME_GPU_GPUEXECUTABLE_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/GPU/GpuState.h"

#include <map>

namespace intarsia::runtime {

/// The facts of the device that loading code needs.
struct GpuTarget {
  GpuDriver &driver;
  GpuState &state;
  int device;
  const char *name; ///< of the device; lives as long as it
  const GpuProperties &properties;
};

/// The kernels of an object (lib/Formats/GpuObject.h), with the functions that the driver has found for their launches.
class GpuExecutable final : public Executable {
public:
  /// A launch and its function.
  struct Bound {
    const GpuLaunch *launch;
    void *function;
    uint32_t slot; ///< of the function in the table of shared memory that is allowed
  };
  struct Kernel {
    const GpuKernel *kernel;
    std::vector<Bound> launches;
  };

  /// Loads the best piece of code that the device runs. The device must have been entered.
  static Status load(const GpuTarget &target, const ExecutableSource &source, std::unique_ptr<Executable> &executable);
  ~GpuExecutable() override;

  /// Returns the kernel of an index in the artifact; null if it is not loaded.
  const Kernel *kernel(uint32_t index) const;
  /// Allows a launch so much dynamic shared memory. Callers hold the lock of the device's queues.
  GpuResult allowShared(const Bound &bound, uint32_t bytes);

private:
  explicit GpuExecutable(const GpuTarget &target) : target_(target) {}
  Status loadCode(const std::string &where);
  Status loadPiece(const GpuCode &code, const std::string &where, GpuFailure &failure);
  Status bindKernels(const ExecutableSource &source, const std::string &where);
  Status bindFunction(const std::string &name, const std::string &where, Bound &bound);

  GpuTarget target_;
  GpuObject object_;
  void *module_ = nullptr;
  std::map<uint32_t, Kernel> kernels_;
  std::map<std::string, std::pair<void *, uint32_t>> functions_; ///< and their slots, by name
  std::vector<uint32_t> allowedShared_;                          ///< dynamic shared memory that each function has now
};

/// Returns the kernel and label of a launch, for messages.
std::string launchText(const Launch &launch);

/// Computes the matrix of a tensor map from the sizes of a launch.
Status computeTensorBox(const GpuTensorMap &map, const Launch &launch, GpuTensorBox &box);

/// Computes the shape of a launch from its sizes. `isEmpty` says that there is nothing to do.
Status computeGrid(const GpuLaunch &shape, const Launch &launch, const GpuProperties &properties, GpuGrid &grid,
                   bool &isEmpty);

} // namespace intarsia::runtime

#endif
