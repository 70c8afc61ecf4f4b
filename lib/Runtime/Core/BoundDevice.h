//===- BoundDevice.h - The devices that a module runs on ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_BOUNDDEVICE_H
#define INTARSIA_RUNTIME_CORE_BOUNDDEVICE_H

#include "intarsia/module_abi.h"
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Device.h"

#include <memory>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// A device of an artifact: the device of this machine that stands for it, and what the module keeps there.
struct BoundDevice {
  Device *device = nullptr; ///< null if no function of the module uses it
  bool hasOwnMemory = false;
  std::unique_ptr<Executable> executable; ///< null if the device runs host code or none of the module's kernels
  Buffer weights;
};

/// The most devices of a module: the events of a call have 8 bits for their device (HostApi.cpp), one value of which
/// means none.
inline constexpr size_t maximumDevices = 255;

/// Lets ranks of one host have different devices where there are several of a kind: the `number`-th rank begins with
/// those that the ranks before it leave.
void orderForRank(const Manifest &manifest, size_t number, std::vector<Device *> &present);

/// Finds the devices that a module runs on among those that are present; if `names` are given, it may use these alone.
/// Each device of the artifact gets the first one of its kind that it does not have yet. `functions` receives the
/// indices of the chosen functions: the first alternative of each name for this rank whose devices are all there, in
/// the order in which the names first appear. Errors begin with `name` and list what the artifact needs and what is
/// here.
Status bindDevices(const Manifest &manifest, const std::string &name, const std::vector<std::string> &names,
                   const std::vector<Device *> &present, int32_t rank, std::vector<BoundDevice> &bound,
                   std::vector<size_t> &functions);

/// Finds the first object of an artifact's device that a device of this machine supports.
Status findObject(const DeviceInfo &info, const std::string &name, const itx_module_descriptor &descriptor,
                  const Device &device, const itx_object *&object);

/// Loads the kernels of each device from the first of its objects that it supports, and checks that all other kernels
/// have host code. `kernels` is the host code of the variant that runs; the manifest belongs to the descriptor.
Status loadKernels(const Manifest &manifest, const std::string &name, const itx_module_descriptor &descriptor,
                   const itx_kernel_entry *kernels, std::vector<BoundDevice> &bound);

/// Copies weights to the devices that keep them. pointers[i] and bytes[i] are those of the i-th tensor of the manifest
/// in the memory of the host; the pointers of the copied tensors become those of the copies. `where` names the weights
/// in messages.
Status uploadWeights(const WeightsInfo &weights, const std::string &where, const std::vector<uint64_t> &bytes,
                     std::vector<BoundDevice> &bound, std::vector<void *> &pointers);

} // namespace intarsia::runtime

#endif
