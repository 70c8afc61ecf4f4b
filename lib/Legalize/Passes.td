//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LEGALIZE_PASSES
#define INTARSIA_LEGALIZE_PASSES

include "mlir/Pass/PassBase.td"

def LegalizeFunctions : Pass<"legalize-functions", "::mlir::ModuleOp"> {
  let summary = "Leaves functions with bodies that call none";
  let description = [{
    Declarations that nothing refers to are dropped, calls are inlined. Other declarations, calls that cannot be
    inlined, and modules inside of the module are refused.
  }];
}

def LegalizeScalars : Pass<"legalize-scalars", "::mlir::ModuleOp"> {
  let summary = "Scalars that a call gives or gets become tensors without dimensions";
  let description = [{
    A scalar argument or result becomes a tensor without dimensions, and what reads an argument reads its element; an
    argument of indices becomes one of integers of 64 bits, where single elements of it are read. Where a fill, a splat,
    an operand or the body of a `linalg` op is a scalar that is extracted from a tensor, or computed from such, the
    tensor becomes the operand:

    ```mlir
    func.func @main(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %t = linalg.broadcast ins(%s : tensor<f32>) outs(%e : tensor<4xf32>) dimensions = [0]
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LegalizeLoops : Pass<"legalize-loops", "::mlir::func::FuncOp"> {
  let summary = "Short loops whose counter kernels would need are written out";
  let description = [{
    `scf.forall` and `scf.parallel` over constants, and `scf.for` whose counter ops on tensors read, become their
    iterations one after the other, if these are at most 64 with at most 4,096 ops.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeOps : Pass<"legalize-ops", "::mlir::func::FuncOp"> {
  let summary = "Decomposes ops that are made of others";
  let description = [{
    `linalg.softmax`, `pack` and `unpack`, `arith` ops with two results, `scf.index_switch`, `scf.if` in
    bodies of `linalg` ops, `bufferization.alloc_tensor`, `ub.poison`, `cf.assert` of what is true, and constants as
    `dense_resource`, whose bytes must be there.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeTensors : Pass<"legalize-tensors", "::mlir::func::FuncOp"> {
  let summary = "Rewrites pad, insert, gather and generate as concatenations and generic ops";
  let description = [{
    `tensor.pad` with a constant and `tensor.insert_slice` without strides become `tensor.concat`; `tensor.generate`,
    `gather`, `insert` and `from_elements` become `linalg.generic`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LegalizeReductions : Pass<"legalize-reductions", "::mlir::func::FuncOp"> {
  let summary = "Results of reductions lose dimensions of size 1 that the reduction keeps";
  let description = [{
    A result whose map has a constant, `(d0, d1) -> (d0, 0)`, is computed without that dimension, which a reshape gives
    back.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

#endif
