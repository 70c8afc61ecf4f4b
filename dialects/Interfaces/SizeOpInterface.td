//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_SIZE_OP_INTERFACE
#define INTARSIA_SIZE_OP_INTERFACE

include "mlir/IR/OpBase.td"

def SizeOpInterface : OpInterface<"SizeOpInterface"> {
  let cppNamespace = "::intarsia";
  let description = [{
    An op whose result sizes are expressions in its operands' sizes. A size is an AffineExpr over the symbols of the
    enclosing function (products of symbols included), so that cost, buffer planning and host code read the same
    expression.
  }];
  let methods = [
    InterfaceMethod<[{
      Sizes of each result, given those of each operand (operands that are no shaped types have none).
    }],
    "::llvm::SmallVector<::llvm::SmallVector<::mlir::AffineExpr>>", "inferResultSizes",
    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes)>,
    InterfaceMethod<[{
      Pairs of sizes that must be equal, or the op would read beyond an operand. Every two sizes that the verifier lets
      pass because one is dynamic are a pair.
    }],
    "::llvm::SmallVector<std::pair<::mlir::AffineExpr, ::mlir::AffineExpr>>", "getEqualSizes",
    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes)>,
    InterfaceMethod<[{
      Pairs of sizes of which the second must be at least the first, or the op would read what is not there.
    }],
    "::llvm::SmallVector<std::pair<::mlir::AffineExpr, ::mlir::AffineExpr>>", "getLeastSizes",
    (ins "::llvm::ArrayRef<::llvm::SmallVector<::mlir::AffineExpr>>":$operandSizes), "", "return {};">
  ];
}

#endif
