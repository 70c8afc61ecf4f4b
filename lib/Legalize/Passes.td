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
    Declarations that nothing refers to are dropped, blocks become `scf.if` and `scf.while`, and calls are inlined. Other declarations, calls that cannot be
    inlined, and modules inside of the module are refused.
  }];
}

def LegalizeScalars : Pass<"legalize-scalars", "::mlir::ModuleOp"> {
  let summary = "Scalars that a call gives or gets become tensors without dimensions";
  let description = [{
    A scalar argument or result becomes a tensor without dimensions, and what reads an argument reads its element. Where
    a fill, a splat, an operand or the body of a `linalg` op is a scalar that is extracted from a tensor, or computed from
    such, the tensor becomes the operand:

    ```mlir
    func.func @main(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %t = linalg.broadcast ins(%s : tensor<f32>) outs(%e : tensor<4xf32>) dimensions = [0]
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LegalizeIndices : Pass<"legalize-indices", "::mlir::func::FuncOp"> {
  let summary = "Elements of type index become integers of 64 bits";
  let description = [{
    Memory has no indices, and calls pass none: tensors of `index`, and arguments and results of that type, become `i64`.
    Bodies and the host cast the elements that they read, and those that they give.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect"];
}

def LegalizeLoops : Pass<"legalize-loops", "::mlir::func::FuncOp"> {
  let summary = "Short loops whose counter kernels would need are written out";
  let description = [{
    `scf.forall` and `scf.parallel` over constants, and `scf.for` whose counter ops on tensors read, become their
    iterations one after the other, if these are at most 64 with at most 4,096 ops; so does any `scf.for` in a body, where
    other loops are refused.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeOps : Pass<"legalize-ops", "::mlir::func::FuncOp"> {
  let summary = "Decomposes ops that are made of others";
  let description = [{
    `linalg.softmax`, `pack` and `unpack`, `arith` ops with two results, `scf.index_switch` and `execute_region`, `affine.apply`, `min` and `max`,
    `bufferization.alloc_tensor`, `ub.poison`, `cf.assert` of what is true, and small constants as `dense_resource`. The
    bytes of all resources must be there.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeTmTensor : Pass<"legalize-tm-tensor", "::mlir::func::FuncOp"> {
  let summary = "Rewrites the ops of torch-mlir beside linalg as linalg";
  let description = [{
    `tm_tensor.scan` becomes `nn.cumulate`, `tm_tensor.sort` becomes `nn.sort`, and `tm_tensor.scatter` a
    loop over all updates for each element.
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeNn : Pass<"legalize-nn", "::mlir::func::FuncOp"> {
  let summary = "Writes out ops of nn that are made of others";
  let description = [{
    `nn.nms`, and `nn.sort` and `nn.top_k` of a dynamic number of elements, become loops that the host runs; `nn.fft` of
    a static number becomes products with matrices and arithmetic between them.
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeDivisions : Pass<"legalize-divisions", "::mlir::func::FuncOp"> {
  let summary = "Divisions of integers by any number have a result";
  let description = [{
    A quotient and a remainder by zero are 0, and the quotient of the least integer and -1 is the least integer, as
    NumPy has it: what divides by other than constants gets a selection before and behind it.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeTensors : Pass<"legalize-tensors", "::mlir::func::FuncOp"> {
  let summary = "Rewrites pad, insert, gather and generate as concatenations and generic ops";
  let description = [{
    `tensor.pad` with a constant and `tensor.insert_slice` without strides become `tensor.concat`; `tensor.generate`,
    `gather`, `insert`, `from_elements`, `insert_slice` with strides or at an index in a tensor, and `extract_slice` at
    such an index become `linalg.generic`. The host asserts that indices from data are inside.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LegalizeMaps : Pass<"legalize-maps", "::mlir::func::FuncOp"> {
  let summary = "Bodies read operands whose maps kernels do not read along";
  let description = [{
    An input of `linalg.generic` with a map of negative multiples, quotients or remainders, such as `(d0) -> (-d0 + 3)`
    or `(d0) -> (d0 floordiv 2)`, becomes a `tensor.extract` in the body.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LegalizeChecks : Pass<"legalize-checks", "::mlir::func::FuncOp"> {
  let summary = "The host asserts what bodies assert, and that indices from data are inside";
  let description = [{
    An index that the body of a `linalg` op computes from data must be in its tensor. An input whose elements are such
    indices gets their range, `nn.range`. The others are computed once more, by a reduction to the largest one over the
    loops that they depend on, which the host asserts at the end of the block; so is what `cf.assert` in a body says.
    Indices that are proven to be inside have no check. Computed row numbers of `nn.embedding` are checked the same way.
    `scf.if` in bodies, whose conditions the checks respect, becomes
    `arith.select` then: both sides are computed.

    ```mlir
    %worst = linalg.generic {… iterator_types = ["reduction"]} ins(%rows : tensor<4xi64>) outs(%zero : tensor<i64>) {…}
    %index = tensor.extract %worst[] : tensor<i64>
    %inside = arith.cmpi ult, %index, %size : i64
    cf.assert %inside, "index of 'tensor.gather' in dimension 0"
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeReductions : Pass<"legalize-reductions", "::mlir::func::FuncOp"> {
  let summary = "Results of loops lose dimensions of size 1 that no loop has";
  let description = [{
    A result whose map has a constant, `(d0, d1) -> (d0, 0)`, is computed without that dimension, which a reshape gives
    back.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeGlobals : Pass<"legalize-globals", "::mlir::ModuleOp"> {
  let summary = "Globals become constants, and states of sessions";
  let description = [{
    An `ml_program.global` that no function writes is a constant where it is read. One that is written is a state: a
    function that reads or writes it gets it as its last arguments and gives it among its last results, both with
    `nn.global`, which a session of the runtime passes from call to call; a function `initial_states`, which runs when
    the module is loaded (`nn.runs_at_load`), gives the initial values. Branches and loops pass states on as values.

    ```mlir
    ml_program.global private mutable @h(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
    func.func @main(%x: tensor<4xf32>) {
      %h = ml_program.global_load @h : tensor<4xf32>
      %n = arith.addf %h, %x : tensor<4xf32>
      ml_program.global_store @h = %n : tensor<4xf32>
      return
    }
    // becomes
    func.func @main(%x: tensor<4xf32>, %h: tensor<4xf32> {nn.global = "h"}) -> (tensor<4xf32> {nn.global = "h"}) {
      %n = arith.addf %h, %x : tensor<4xf32>
      return %n : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::intarsia::nn::NnDialect"];
}

def LegalizeCounts : Pass<"legalize-counts", "::mlir::ModuleOp"> {
  let summary = "A size that is an element of a tensor begins a part of a function";
  let description = [{
    Where a size is computed from elements of tensors, as the number of elements that pass a test, the function ends with
    the tensors that the rest reads and that number, and the rest becomes a function that continues it (`nn.continues`).
    Its arguments are those of the function, the results, and for each such size a tensor that has it (`nn.size_from`).
    Calls run one after the other. A size above what an op needs, or below zero, ends the call.

    ```mlir
    func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<i64>)
    func.func @main.rest(%x: tensor<8xf32>, %packed: tensor<8xf32>, %n: tensor<i64>,
                         %size: tensor<?xi8> {nn.size_from = 1, nn.sizes = ["count0"]}) -> tensor<?xf32>
        attributes {nn.continues = @main} {
      %k = tensor.dim %size, %c0 : tensor<?xi8>
      %kept = tensor.extract_slice %packed[0] [%k] [1] : tensor<8xf32> to tensor<?xf32>
      return %kept : tensor<?xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def LegalizeConstants : Pass<"legalize-constants", "::mlir::ModuleOp"> {
  let summary = "Large constants become weights";
  let description = [{
    A constant of 1 KiB and more, as `dense` or `dense_resource`, becomes a weight of an `nn.constants` op, equal ones one
    weight, so that it is packed, quantized and divided among devices as weights are. Splats stay constants.

    ```mlir
    nn.constants @constants {tensors = {w = dense_resource<w> : tensor<64x32xf32>}}
    ...
    %w = nn.weight @constants["w"] : tensor<64x32xf32>
    ```
  }];
  let dependentDialects = ["::intarsia::nn::NnDialect"];
}

#endif
