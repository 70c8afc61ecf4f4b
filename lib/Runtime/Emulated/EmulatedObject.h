//===- EmulatedObject.h - An object of a GPU, loaded for the emulated device -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_EMULATEDOBJECT_H
#define INTARSIA_RUNTIME_EMULATED_EMULATEDOBJECT_H

#include "lib/Formats/GpuObject.h"
#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Emulated/WarpMachine.h"
#include "lib/Runtime/Hosted/ElfLibrary.h"

#include <map>

namespace intarsia::runtime {

/// Returns the threads of a warp of an architecture ("sm_80", "gfx942"); 0 if it is that of no GPU.
uint32_t warpSizeOf(const std::string &architecture);

/// Returns the function that kernels import by this name: one of include/intarsia/emulated_abi.h or of C's mathematics
/// library; null if they may not import it.
void *findEmulatedImport(const std::string &name);

/// The kernels of an object, whose code is that for the host.
class EmulatedObject final : public Executable {
public:
  /// A function of the object.
  struct Function {
    void (*address)() = nullptr;
    uint64_t sharedBytes = 0; ///< static ones
  };

  /// Reads an object and loads its code for this machine. ITX_CORRUPT names what it lacks, ITX_UNSUPPORTED says what it
  /// has instead. Its kernels run with these settings.
  static Status load(const ExecutableSource &source, const MachineSettings &settings,
                     std::unique_ptr<Executable> &executable);

  /// Returns the kernel of an index in the artifact; null if the object lacks it.
  const GpuKernel *kernel(uint32_t index) const { return object_.find(index); }
  /// Returns the function of a launch of one of the kernels.
  const Function &function(const GpuLaunch &launch) const { return functions_.at(launch.function); }
  /// Returns the lowest address of the code and its variables, and the bytes from there to their end.
  const void *begin(uint64_t &bytes) const { return library_->begin(bytes); }
  uint32_t warpSize() const { return warpSize_; }
  const MachineSettings &settings() const { return settings_; }
  /// True if the code calls load_check and store_check before each access.
  bool isChecked() const { return isChecked_; }

private:
  Status loadCode(const std::string &where);
  Status bindFunctions(const ExecutableSource &source, const std::string &where);

  GpuObject object_; ///< without its code
  std::unique_ptr<ElfLibrary> library_;
  std::map<std::string, Function> functions_;
  MachineSettings settings_;
  uint32_t warpSize_ = 0;
  bool isChecked_ = false;
};

} // namespace intarsia::runtime

#endif
