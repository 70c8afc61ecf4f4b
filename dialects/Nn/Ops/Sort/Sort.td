//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_SORT
#define INTARSIA_NN_SORT

include "dialects/Nn/NnOp.td"

def Nn_SortableTensor : RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>;

class Nn_SortingOp<string mnemonic> : Nn_TensorOp<mnemonic, "Generic"> {
  let results = (outs Nn_SortableTensor:$values, RankedTensorOf<[I64]>:$indices);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Nn_TopKOp : Nn_SortingOp<"top_k"> {
  let summary = "The largest or smallest elements along an axis, in order";
  let description = [{
    `values` are the `k` largest elements along `axis`, the largest first, or with `smallest` the smallest ones, the
    smallest first; `indices` are where they are along the axis. Of equal elements the one of the lower index comes first.
    NaN is larger than every number and equal to NaN; -0 and 0 are equal; integers are signed. It is `topk` of PyTorch,
    and `TopK` of ONNX (version 11) with sorted results.

    Rejected: a scalar, an axis outside of the dimensions, a negative `k`, one above the size of the axis. A call in
    which the axis has fewer than `k` elements is refused.

    ```mlir
    %values, %indices = nn.top_k %x {axis = 1, k = 5} : (tensor<?x1000xf32>) -> (tensor<?x5xf32>, tensor<?x5xi64>)
    ```
  }];
  let arguments = (ins Nn_SortableTensor:$input, I64Attr:$axis, I64Attr:$k, UnitAttr:$smallest);
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
  }];
}

def Nn_SortOp : Nn_SortingOp<"sort"> {
  let summary = "The elements along an axis, in order";
  let description = [{
    `values` are the elements along `axis`, the smallest first, or with `descending` the largest; `indices` are where they
    were along the axis. Equal elements stay in their order. NaN is larger than every number and equal to NaN; -0 and 0
    are equal; integers are signed. It is the stable `sort` of PyTorch, and that of NumPy.

    Rejected: a scalar, an axis outside of the dimensions.

    ```mlir
    %values, %indices = nn.sort %x {axis = 0} : (tensor<1000x4xf32>) -> (tensor<1000x4xf32>, tensor<1000x4xi64>)
    ```
  }];
  let arguments = (ins Nn_SortableTensor:$input, I64Attr:$axis, UnitAttr:$descending);
}

#endif
