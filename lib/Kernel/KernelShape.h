//===- KernelShape.h - How the work of a kernel is cut up --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Between an rt.kernel and its code stands its shape: tiles, instructions, stages, threads, which operands are packed.
// An emitter states it before it emits anything and goes on with what KernelShape returns. So IR may state figures that
// are chosen, as the kernel's attribute `rt.shapes`, and the code follows them; `target-emit-kernels=step=shape` writes
// it.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_KERNELSHAPE_H
#define INTARSIA_LIB_KERNEL_KERNELSHAPE_H

#include "dialects/Rt/Rt.h"

namespace intarsia::kernel {

/// The attribute of an rt.kernel with its shapes: a dictionary by the names of variants.
inline constexpr llvm::StringLiteral shapesAttribute = "rt.shapes";

/// Returns what IR states of a kernel's shape for a variant; null if nothing. Fails with a message if the attribute is
/// no dictionary.
mlir::FailureOr<mlir::Attribute> statedShape(rt::KernelOp kernel, llvm::StringRef variant);
/// Writes the shape for a variant into IR.
void setShape(rt::KernelOp kernel, llvm::StringRef variant, mlir::Attribute shape);

/// The shape of a kernel, or of one of its launches, while it is decided.
class KernelShape {
public:
  /// The values that a chosen figure may have.
  struct Range {
    int64_t least, most, multiple = 1;
  };

  /// `stated` is what IR states, null if nothing. Fails at finish() if that is no dictionary.
  KernelShape(rt::KernelOp kernel, llvm::StringRef variant, mlir::Attribute stated);

  /// States what follows from the kernel and its processor: IR may repeat it, not change it.
  void state(llvm::StringRef name, mlir::Attribute value);
  void state(llvm::StringRef name, int64_t value);
  void state(llvm::StringRef name, llvm::StringRef value);
  /// States a figure that others may do as well; it becomes what IR states instead.
  template <typename Int> void choose(llvm::StringRef name, Int &figure, Range range) {
    figure = Int(chosen(name, int64_t(figure), range));
  }
  /// Describes a part of the shape as a dictionary of its own.
  void part(llvm::StringRef name, llvm::function_ref<void(KernelShape &part)> describe);
  /// Returns the shape as an attribute. Fails with a message if IR states a figure that the shape does not have, or a
  /// value that it cannot have.
  mlir::FailureOr<mlir::DictionaryAttr> finish();

private:
  int64_t chosen(llvm::StringRef name, int64_t figure, Range range);
  mlir::Attribute take(llvm::StringRef name);
  static std::string text(mlir::Attribute value);
  void refuse(const llvm::Twine &why);
  mlir::DictionaryAttr dictionary();

  rt::KernelOp kernel;
  std::string variant, problem; ///< the first problem is the one that is reported
  mlir::NamedAttrList stated, figures;
};

} // namespace intarsia::kernel

#endif
