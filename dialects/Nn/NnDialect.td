//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_DIALECT
#define INTARSIA_NN_DIALECT

include "mlir/IR/OpBase.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::intarsia::nn";
  let summary = "Tensor ops whose name matters to a decision";
  let description = [{
    An op of this dialect exists where the structure that it keeps is needed to decide on fusion, precision,
    partition or placement. Everything else is upstream `linalg`, `tensor`, `arith` and `math`.

    Shapes are written as lists of names: `[batch, sequence, features]`. Data is f32, bf16 or f16; sums, means and
    exponentials are computed in f32.

    Attributes on functions and their arguments: `nn.name` (the user's name), `nn.sizes` (a symbol for each dynamic
    dimension, `""` for static ones; equal symbols are equal sizes), `nn.default` (what stands in for an input that the
    caller leaves out), `nn.range` (values allowed in an integer input: low, high excluded), `nn.size_limits` (largest
    value of a symbol), `nn.metadata` (kept in the manifest).
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect"];
}

#endif
