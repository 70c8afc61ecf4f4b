//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_KERNEL_OP_INTERFACES
#define INTARSIA_KERNEL_OP_INTERFACES

include "mlir/IR/OpBase.td"

def KernelRootOpInterface : OpInterface<"KernelRootOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op that a kernel can be built around: the kind of kernel that computes the op alone. Ops of which a kernel of rows
    may hold several say `rows`.
  }];
  let methods = [
    StaticInterfaceMethod<"The kind of kernel that computes the op alone.", "::intarsia::KernelRoot", "getKernelRoot">
  ];
}

def RowwiseOpInterface : OpInterface<"RowwiseOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op whose elements depend on statistics of the whole row (last dimension) of its first operand that they lie in:
    norms and softmax. Its result has the sizes of that operand.
  }];
}

def NormOpInterface : OpInterface<"NormOpInterface", [RowwiseOpInterface]> {
  let cppNamespace = "::intarsia";
  let description = [{
    A row-wise op that scales and shifts rows by their mean and deviation and needs no second pass over the row for
    anything else, so that a linear can finish with it. Its operands are the input, the scale and, where the op has
    one, the bias; scale and bias have an element for each feature.
  }];
  let methods = [
    InterfaceMethod<"The statistics that the op divides a row by.", "::intarsia::NormStatistics", "getStatistics">
  ];
  let extraClassDeclaration = [{
    ::mlir::Value getInput() { return (*this)->getOperand(0); }
    ::mlir::Value getScale() { return (*this)->getOperand(1); }
    /// Returns null if the op only scales.
    ::mlir::Value getBias() { return (*this)->getNumOperands() == 3 ? (*this)->getOperand(2) : ::mlir::Value(); }
  }];
}

def StoredOperandOpInterface : OpInterface<"StoredOperandOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op that reads operands as they are stored: weights, tables, scales and shifts of norms. Such an operand is never
    cloned into a kernel, and the device's target says how it is laid out.
  }];
  let methods = [
    InterfaceMethod<"How the op reads an operand.", "::intarsia::StoredOperand", "getStoredOperand",
                    (ins "unsigned":$operand)>
  ];
}

def RowInputOpInterface : OpInterface<"RowInputOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op whose kernels read an operand row by row, each row as a whole: rows that are slices or reshapes of another
    tensor's need no copy, and rows that are quantized need no kernel of their own.
  }];
  let methods = [
    InterfaceMethod<"The rows that the op reads, and how it quantizes them; null if it reads no rows as a whole.",
                    "::intarsia::RowInput", "getRowInput">
  ];
}

def InPlaceOpInterface : OpInterface<"InPlaceOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op that updates a state in place: each result is the next value of an operand, and lies in its memory. Nothing may
    read the operand after the op.
  }];
  let methods = [
    InterfaceMethod<"The operand that a result is the next value of.", "::mlir::OpOperand &", "getUpdatedOperand",
                    (ins "unsigned":$result)>
  ];
}

def IndexOperandOpInterface : OpInterface<"IndexOperandOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op with operands whose integers are indices of something else: rows of a table, pages of a cache. They must be
    neither negative nor as large as a size, or the op would read or write beyond it. Where the op says that its kernels
    guard an operand themselves, other integers have a defined result.
  }];
  let methods = [
    InterfaceMethod<"The operands whose integers are indices, given the sizes of all operands.",
                    "::llvm::SmallVector<::intarsia::IndexOperand>", "getIndexOperands",
                    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes)>
  ];
}

#endif
