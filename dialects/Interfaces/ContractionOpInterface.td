//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_CONTRACTION_OP_INTERFACE
#define INTARSIA_CONTRACTION_OP_INTERFACE

include "mlir/IR/OpBase.td"

def ContractionOpInterface : OpInterface<"ContractionOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op that sums products of elements of two tensors. The left side is computed; the right side is computed too, or is
    a weight. Rows of the left side are multiplied by columns of the right side. Passes ask what the op multiplies, not
    which op it is. A pass does not change a contraction that it does not support, or refuses it by name.

    An op with several products one after another, such as nn.experts, answers for the first of them; its right sides are
    those of all.
  }];
  let methods = [
    InterfaceMethod<"The left side.", "::mlir::OpOperand &", "getLeftOperand">,
    InterfaceMethod<"The right side of each product.", "::llvm::SmallVector<::mlir::OpOperand *>", "getRightOperands">,
    InterfaceMethod<[{What is added to the sums: an element for each position of the loops that the right side shares with the
                      result. No operand if there is nothing.}],
                    "::mlir::MutableOperandRange", "getBiasOperand">,
    InterfaceMethod<"The elements that are multiplied and what they are added to.", "::intarsia::ContractionMaps",
                    "getMaps">,
    InterfaceMethod<[{How the left side is read. An op whose left side has dimensions that several loops count reads
                      windows.}],
                    "::intarsia::LeftRead", "getLeftRead", (ins), "", [{
      return $_op.getMaps().left.isProjectedPermutation() ? ::intarsia::LeftRead::Rows : ::intarsia::LeftRead::Window;
    }]>,
    InterfaceMethod<"The type that a device may round both sides to before it multiplies them, if there is one.",
                    "std::optional<::mlir::Type>", "getPrecision", (ins), "return $_op.getPrecision();">,
    InterfaceMethod<"Sets that type.", "void", "setPrecision", (ins "::mlir::Type":$type),
                    "$_op.setPrecision(type);">
  ];
  let extraClassDeclaration = [{
    ::mlir::Value getLeft() { return getLeftOperand().get(); }
    ::mlir::OpOperand &getRightOperand() { return *getRightOperands().front(); }
    ::mlir::Value getRight() { return getRightOperand().get(); }
    /// Returns null if there is none.
    ::mlir::Value getBias();
    /// True if the right side is read as it is stored: a weight, whose layout the device's target says.
    bool hasStoredRight();
    /// True if the result is the sums, so that a kernel can compute other ops with each sum before it stores it: an
    /// epilogue.
    bool givesSums() { return static_cast<bool>(getMaps().result); }
    /// Makes the same op of other tensors, with the discardable attributes of this one. Without `bias` it has none.
    ContractionOpInterface cloneWith(::mlir::OpBuilder &builder, ::mlir::Location location, ::mlir::Type result,
                                     ::mlir::Value left, ::mlir::Value right, ::mlir::Value bias);
  }];
}

#endif
