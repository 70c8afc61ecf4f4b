//===- Module.h - A loaded artifact -------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_MODULE_H
#define INTARSIA_RUNTIME_CORE_MODULE_H

#include "intarsia/module_abi.h"
#include "lib/Formats/Manifest.h"
#include "lib/Formats/Safetensors.h"
#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/BoundDevice.h"
#include "lib/Runtime/Core/DeviceGroups.h"
#include "lib/Runtime/Core/Globals.h"
#include "lib/Runtime/Core/VerifyKernels.h"
#include "lib/Runtime/Tiers/WeightStream.h"
#include "lib/Support/Hash.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct itx_call;

namespace intarsia::runtime {

struct LoadOptions {
  bool verify = false;
  std::string variant; // empty: the best that this CPU can run
  std::string weights; // empty: beside the artifact
  // Names of the machine's devices and of those in `made` that the module may use; empty: all of the machine's.
  std::vector<std::string> devices;
  std::vector<std::shared_ptr<Device>> made; // devices that the program has made
  double verifyKernels = 0;                  // tolerance; 0: kernels are not verified
  uint64_t memoryBytes = 0;                  // that the process may use; 0: no limit
};

/// A function of a loaded module: the alternative that it runs.
struct ModuleFunction {
  const FunctionInfo *info = nullptr;
  itx_host_fn call = nullptr;
  std::optional<size_t> next; // the part that continues it
};

/// Returns the best variant among those that the processor can run and that are named `wanted` (if that is not empty):
/// the one made for this processor (LLVM's name, empty if unknown), else the one with the most features. Returns
/// nullopt if there is none.
std::optional<size_t> bestVariant(const std::vector<VariantInfo> &variants, const std::string &wanted,
                                  const std::vector<std::string> &features, const std::string &processor);

class Module {
public:
  static Status load(const std::string &path, const LoadOptions &options, std::shared_ptr<Module> &module);
  static Status loadMemory(const void *data, uint64_t bytes, const std::string &name, const LoadOptions &options,
                           std::shared_ptr<Module> &module);
  /// Loads the module at the end of an executable.
  static Status loadEmbedded(const std::string &path, const LoadOptions &options, std::shared_ptr<Module> &module);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  const std::string &name() const { return name_; }
  const Manifest &manifest() const { return manifest_; }
  /// The hash in the artifact's header. It covers code and manifest, hence the hash of the weights too.
  const Hash128 &hash() const { return hash_; }
  const VariantInfo &variant() const { return manifest_.variants[variant_]; }
  const itx_kernel_entry *kernels() const { return kernels_; }
  /// The functions in the order of the manifest, one for each name; those that are not for callers come last. Callers
  /// refer to them by their index here.
  const std::vector<ModuleFunction> &functions() const { return functions_; }
  /// Returns the last part of a function, which gives its results.
  const FunctionInfo &lastPart(size_t function) const {
    while (functions_[function].next)
      function = *functions_[function].next;
    return *functions_[function].info;
  }
  /// The data of the manifest's tensors, each in the memory that the manifest says.
  void *const *weights() const { return weightPointers_.data(); }
  /// Refuses weights whose file has changed its size since it was loaded: reading them could end the process.
  Status checkWeights() const { return archive_ ? archive_->checkSize() : Status::success(); }
  /// The devices in the order of the manifest; those that no function uses are null.
  const std::vector<BoundDevice> &devices() const { return devices_; }
  /// Returns the device in whose own memory something lies that the manifest says is on this device (-1: the host).
  /// Returns null for memory of the host.
  Device *memoryOf(int32_t device) const {
    return device >= 0 && devices_[device].hasOwnMemory ? devices_[device].device : nullptr;
  }
  /// Returns what functions that run at load have computed. Sessions begin with it.
  Globals &globals() const { return globals_; }
  /// Names of the globals that functions change: the states of sessions, in alphabetical order.
  const std::vector<std::string> &states() const { return states_; }
  /// Returns what verifies kernels; null if they are not verified.
  KernelVerifier *verifier() const { return verifier_.get(); }
  /// Returns what reads weights while calls run; null if all of them are mapped.
  WeightStream *stream() const { return stream_.get(); }
  /// The world that runs the module; null if it is for one process alone.
  World *world() const { return world_.get(); }
  /// The groups of the manifest's world.
  const std::vector<Communicator *> &groups() const { return groups_; }
  /// Which of them exchange data in the memories of devices; null if the artifact has no devices with such memory.
  DeviceGroups *deviceGroups() const { return deviceGroups_.get(); }
  /// A file of the model that the artifact carries, checked against its hash; it lives as long as the module.
  Status file(const std::string &name, const void *&data, uint64_t &bytes) const;

  /// Returns the state of one call. It reuses that of an earlier call if one is free, so that a steady state allocates
  /// no large memory.
  std::unique_ptr<::itx_call> takeCall();
  void giveCall(std::unique_ptr<::itx_call> call);

private:
  struct Source;
  Module();
  static Status loadSource(const Source &source, const LoadOptions &options, std::shared_ptr<Module> &module);
  Status loadCode(const Source &source, uint64_t bytes);
  Status joinWorld();
  Status openDeviceGroups();
  Status chooseVariant(const std::string &wanted);
  Status bindCode(const LoadOptions &options);
  Status loadWeights(const Source &source, uint64_t offset, uint64_t bytes, const LoadOptions &options);
  Status bindWeights(const LoadOptions &options);
  Status startStream(const LoadOptions &options);
  Status findParts();
  Status computeGlobals();

  std::string name_;
  Hash128 hash_ = {};
  Manifest manifest_;
  std::shared_ptr<World> world_;
  std::vector<Communicator *> groups_;
  std::unique_ptr<DeviceGroups> deviceGroups_;
  std::vector<std::shared_ptr<Device>> madeDevices_; // those that `devices_` may refer to
  std::vector<BoundDevice> devices_;
  size_t variant_ = 0;
  int codeFile_ = -1;
  void *library_ = nullptr;
  const itx_module_descriptor *descriptor_ = nullptr;
  const itx_kernel_entry *kernels_ = nullptr; // of the variant
  std::vector<ModuleFunction> functions_;
  std::unique_ptr<KernelVerifier> verifier_;
  std::unique_ptr<SafetensorsFile> archive_;
  std::vector<uint8_t> weightsCopy_; // embedded weights of a module that came from memory
  std::vector<void *> weightPointers_;
  std::unique_ptr<WeightStream> stream_; // reads archive_

  mutable Globals globals_;
  std::vector<std::string> states_;

  std::mutex callMutex_;
  std::vector<std::unique_ptr<::itx_call>> freeCalls_;
};

} // namespace intarsia::runtime

#endif
