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
    What an op asks of a device, as expressions in the symbols of the enclosing function: floating-point operations,
    elementwise evaluations of transcendental functions, bytes read and written.
    The cost model evaluates them at the expected sizes.
  }];
  let methods = [
    InterfaceMethod<"Work of the op, given the sizes of its operands and results.",
    "::intarsia::Work", "getWork",
    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes,
         "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$resultSizes)>
  ];
}

#endif
