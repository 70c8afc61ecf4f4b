//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_NONZERO
#define INTARSIA_NN_NONZERO

include "dialects/Nn/NnOp.td"

def Nn_NonzeroOp : Nn_TensorOp<"nonzero", "Generic"> {
  let summary = "Where the elements are that are not zero, and how many";
  let description = [{
    Row `i` of `indices` `[elements, rank]` holds the coordinates of element number `i` that is not zero, in the order
    in which elements lie in memory; `count` is the number of these elements, and rows from `count` on are -1. NaN is not
    zero, -0 is, `true` is not. A size that the count is becomes a size of tensors where they are cut to it:

    ```mlir
    %indices, %count = nn.nonzero %x : (tensor<?x8xf32>) -> (tensor<?x2xi64>, tensor<i64>)
    %number = tensor.extract %count[] : tensor<i64>
    %size = arith.index_cast %number : i64 to index
    %there = tensor.extract_slice %indices[0, 0] [%size, 2] [1, 1] : tensor<?x2xi64> to tensor<?x2xi64>
    ```

    It is `argwhere` of NumPy, `nonzero` of PyTorch, and `NonZero` of ONNX (version 13) with its result transposed.

    Rejected: a scalar.
  }];
  let arguments = (ins RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>:$input);
  let results = (outs RankedTensorOf<[I64]>:$indices, RankedTensorOf<[I64]>:$count);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

#endif
