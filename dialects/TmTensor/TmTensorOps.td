//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_TMTENSOR_OPS
#define INTARSIA_DIALECTS_TMTENSOR_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TmTensor_Dialect : Dialect {
  let name = "tm_tensor";
  let cppNamespace = "::intarsia::tm_tensor";
  let summary = "What torch-mlir leaves beside linalg";
  let description = [{
    The ops that torch-mlir writes where `linalg` has none, with its spelling and meaning, on tensors. `legalize-tm-tensor`
    rewrites them where a file comes in.
  }];
}

class TmTensor_Op<string mnemonic, list<Trait> traits = []>
    : Op<TmTensor_Dialect, mnemonic, !listconcat(traits, [AttrSizedOperandSegments, RecursiveMemoryEffects])> {
  let regions = (region SizedRegion<1>:$region);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
}

def TmTensor_ScanOp : TmTensor_Op<"scan"> {
  let summary = "Running values along a dimension";
  let description = [{
    `results[0][i] = f(results[0][i - 1], input[i])`, where `f` is the region; `results[1]` is what the last one is.

    ```mlir
    %sums:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<4x7xf32>) outs(%y, %last : tensor<4x7xf32>, tensor<4xf32>) {
    ^bb0(%before: f32, %v: f32):
      %s = arith.addf %before, %v : f32
      tm_tensor.yield %s : f32
    } -> tensor<4x7xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<AnyRankedTensor>:$outputs, I64Attr:$dimension,
      BoolAttr:$inclusive);
  let assemblyFormat = [{
    `dimension` `(` $dimension `)` `inclusive` `(` $inclusive `)` attr-dict `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` $region (`->` type($results)^)?
  }];
}

def TmTensor_ScatterOp : TmTensor_Op<"scatter"> {
  let summary = "Updates of slices whose places are data";
  let description = [{
    The inputs are `updates` `[count, slice…]` and `indices` `[count, depth]`, the output is the original. The slice `n`
    begins at `indices[n, c]` in the dimension `dimension_map[c]`, at 0 in others; its dimensions are the last ones of
    the original. Each element becomes `f(update, element)`, in the order of the updates.

    ```mlir
    %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%updates, %at : tensor<3x6xf32>, tensor<3x1xi64>) outs(%x : tensor<4x6xf32>) {
    ^bb0(%update: f32, %element: f32):
      tm_tensor.yield %update : f32
    } -> tensor<4x6xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<AnyRankedTensor>:$outputs,
      DenseI64ArrayAttr:$dimension_map, DefaultValuedAttr<BoolAttr, "true">:$unique_indices);
  let assemblyFormat = [{
    attr-dict `unique_indices` `(` $unique_indices `)` (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)` $region (`->` type($results)^)?
  }];
}

def TmTensor_SortOp : TmTensor_Op<"sort"> {
  let summary = "Tensors in the order of the first";
  let description = [{
    Sorts all outputs along a dimension so that the region holds for neighbours. Its arguments are two elements of each
    output.

    ```mlir
    %sorted:2 = tm_tensor.sort dimension(1) outs(%x, %numbers : tensor<4x7xf32>, tensor<4x7xi64>) {
    ^bb0(%a: f32, %b: f32, %i: i64, %j: i64):
      %before = arith.cmpf oge, %a, %b : f32
      tm_tensor.yield %before : i1
    } -> tensor<4x7xf32>, tensor<4x7xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<AnyRankedTensor>:$outputs, I64Attr:$dimension);
  let assemblyFormat = [{
    attr-dict `dimension` `(` $dimension `)` (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)` $region (`->` type($results)^)?
  }];
}

def TmTensor_YieldOp : Op<TmTensor_Dialect, "yield", [Pure, ReturnLike, Terminator]> {
  let summary = "What a region gives";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

#endif
