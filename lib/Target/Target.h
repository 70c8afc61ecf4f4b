//===- Target.h - What kernels are compiled for -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_TARGET_H
#define INTARSIA_LIB_TARGET_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>
#include <vector>

namespace intarsia::target {

/// One way in which the kernels of an artifact are compiled. Of those that a processor can run, the runtime takes the
/// one made for that processor, else the one that uses most of its features.
struct Variant {
  std::string name;                  ///< "x86-64-v4"; no two of an artifact are equal
  std::string cpu;                   ///< LLVM's name of the processor that instructions are scheduled for
  std::vector<std::string> features; ///< what the processor must have, LLVM's names without "+": "avx2", "fma"
};

/// A relocatable ELF object. For variant v and kernel k (the index of the rt.kernel in module order) one of the objects
/// defines `itx_k<k>_v<v>_plan` (itx_kernel_plan_fn) and `itx_k<k>_v<v>_run` (itx_kernel_run_fn), hidden.
struct CompiledObject {
  std::string name; ///< for messages and for the order in which objects are linked
  std::vector<char> object;
};

/// Something that kernels of one artifact are compiled for: an architecture, in one or several variants.
class Target {
public:
  /// The targets that `specs` (`cpu`, `cpu:znver5`, `cpu:x86-64-v4+avx512vnni`, `cpu:aarch64`, …) name: those of one
  /// triple are variants of one target. The error of an unknown name lists those that exist.
  static llvm::Expected<std::vector<std::unique_ptr<Target>>> create(llvm::ArrayRef<std::string> specs);
  virtual ~Target() = default;

  /// LLVM triple of host code and kernels, e.g. "x86_64-unknown-linux-gnu".
  virtual std::string triple() const = 0;
  /// Variants, best first; variant index v of the artifact.
  virtual std::vector<Variant> variants() const = 0;
  /// Machine for host code: runs wherever one of the variants runs.
  virtual std::unique_ptr<llvm::TargetMachine> hostMachine() const = 0;
  /// What lld's -m takes, e.g. "elf_x86_64".
  virtual std::string elfEmulation() const = 0;

  /// Compiles every rt.kernel of the module for every variant, on the threads of the MLIR context. The module may be
  /// changed.
  /// The objects and their order depend on the module and the target alone. Errors name the kernel, the op and where
  /// it comes from in the user's model.
  virtual llvm::Error compileKernels(mlir::ModuleOp module, std::vector<CompiledObject> &objects) = 0;

  /// What the best variant hands to its code generator, for people to read: a module with `<kernel>_plan` and
  /// `<kernel>_run` of every rt.kernel; null after an error, which went to the context's diagnostics.
  virtual mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module) = 0;
};

} // namespace intarsia::target

#endif
