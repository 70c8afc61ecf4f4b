//===- HostCode.h - Host programs as LLVM IR ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_HOSTCODE_H
#define INTARSIA_LIB_ASSEMBLE_HOSTCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <string>
#include <vector>

namespace intarsia::assemble {

/// A constant in the memory of a device.
struct WeightUse {
  unsigned constant; ///< index among the module's rt.constants
  int device;        ///< index of the device whose own memory it is in; -1 for memory of the host
};

/// The tables whose indices host code and the manifest share.
struct ModuleTables {
  explicit ModuleTables(mlir::ModuleOp module);
  std::vector<std::string> devices, kernels, labels; ///< labels: locations in the user's model
  std::vector<unsigned> kernelDevices;               ///< index of the device of each kernel
  std::vector<WeightUse> weights;                    ///< each constant has one or more
  std::vector<mlir::Operation *> functions;          ///< func.funcs, in order
  std::vector<std::vector<int64_t>> groups;          ///< ranks that do something together
  llvm::StringMap<unsigned> kernelIndices, labelIndices, constantIndices, deviceIndices;
  /// Returns the index of the device whose own memory a buffer is in; -1 for memory of the host.
  int memoryOf(mlir::Type buffer) const;
  /// Returns the index in `weights` of the constant that an rt.constant_data gives.
  unsigned weightNumber(mlir::Operation *constantData) const;
  unsigned groupNumber(llvm::ArrayRef<int64_t> ranks) const;
  /// Returns the label of a dispatch or collective: its own, or else the name of its kernel or kind.
  static llvm::StringRef labelOf(mlir::Operation *work);
};

/// The kernels of a module as host code refers to them.
struct KernelCode {
  unsigned variants = 1;        ///< of kernels that are host code
  std::vector<bool> isHostCode; ///< for each device: kernels are functions that are linked with the host code
  std::vector<llvm::ArrayRef<char>> objects; ///< of the other devices, by the indices of the manifest
};

/// Translates the host functions of a lowered module to LLVM IR, adds the module descriptor (intarsia/module_abi.h) for
/// its kernels and the sections of an artifact, and compiles it: a relocatable object.
///
/// It translates rt directly to LLVM IR: every op is one or two calls of the host interface with arrays of values, and
/// going through the llvm dialect took longer than everything else here.
llvm::Expected<std::vector<char>> compileHostCode(mlir::ModuleOp module, const ModuleTables &tables,
                                                  const KernelCode &kernels, llvm::StringRef manifest,
                                                  llvm::TargetMachine &machine);

} // namespace intarsia::assemble

#endif
