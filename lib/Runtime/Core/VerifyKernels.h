//===- VerifyKernels.h - Every kernel a second time, on another device --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_VERIFYKERNELS_H
#define INTARSIA_RUNTIME_CORE_VERIFYKERNELS_H

#include "intarsia/module_abi.h"
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/CompareResults.h"
#include "lib/Runtime/Core/Device.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <vector>

namespace intarsia::runtime {

/// What has been verified.
struct VerifiedKernels {
  uint64_t launches = 0;
  size_t kernels = 0;
  double largestDifference = 0; ///< of floats, relative; `kernel` and `label` had it
  std::string kernel;
  std::string label;
};

/// Runs the kernels of a module on a device that all of them are compiled for, on the same operands, and compares the
/// results. One launch at a time: each is waited for.
class KernelVerifier {
public:
  /// Finds the device of the artifact that verifies, and loads all kernels on it. It is one of the devices named
  /// `names`, or the first of this machine if they have none of its kind.
  static Status create(const Manifest &manifest, const std::string &name, const itx_module_descriptor &descriptor,
                       const std::vector<std::string> &names, double tolerance,
                       std::unique_ptr<KernelVerifier> &verifier);

  /// Notes a weight in the memory of a device (null: the host's). It is copied when a kernel first reads it, and the
  /// copy is kept: weights are large and never change.
  void addWeight(Device *memory, const void *address, uint64_t bytes);

  /// Runs a launch on its device after events of that device, and then on the verifying one. ITX_INTERNAL if the
  /// results differ: the compiler is wrong, which no caller can mend.
  Status dispatch(Device &own, uint32_t queue, const Launch &launch, const std::vector<itx_event> &after);

  Device &device() const { return device_; }
  VerifiedKernels verified() const;

private:
  struct Part;
  struct Weight {
    uint64_t bytes = 0;
    Buffer copy;
  };
  /// Bytes of operands by their numbers.
  using Contents = std::map<uint32_t, std::vector<uint8_t>>;
  /// Where memory is: the device, null for the host's; the address.
  using Address = std::pair<Device *, const uint8_t *>;

  KernelVerifier(Device &device, double tolerance) : device_(device), tolerance_(tolerance) {}
  Status copyHere(Device &own, const Part &part, void *to);
  Status findWeight(Device &own, Part &part);
  Status makeParts(Device &own, const Launch &launch, std::vector<Part> &parts, std::vector<size_t> &partOf);
  Status readBefore(const Launch &launch, const std::vector<Part> &parts, const std::vector<size_t> &partOf,
                    Contents &before);
  Status compare(Device &own, const Launch &launch, const std::vector<Part> &parts, const std::vector<size_t> &partOf,
                 const Contents &before);
  Status compareOutput(Device &own, const Launch &launch, uint32_t operand, ResultBytes bytes);

  Device &device_;
  double tolerance_;
  pid_t process_ = 0;
  std::unique_ptr<Executable> executable_;
  mutable std::mutex mutex_;
  std::map<Address, Weight> weights_;
  VerifiedKernels verified_;
  std::vector<bool> isVerified_; ///< by kernel
};

} // namespace intarsia::runtime

#endif
