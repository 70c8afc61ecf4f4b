//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_OP_INTERFACE
#define INTARSIA_COST_OP_INTERFACE

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    What an op computes, as expressions in the symbols of the enclosing function: floating-point operations and
    elementwise evaluations of transcendental functions. The cost model evaluates them at the expected sizes. Bytes are
    no property of an op: they depend on which of its operands and results cross the border of its kernel, and are
    counted there.
  }];
  let methods = [
    InterfaceMethod<"Work of the op, given the sizes of its operands and results.",
    "::intarsia::Work", "getWork",
    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes,
         "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$resultSizes)>
  ];
}

#endif
