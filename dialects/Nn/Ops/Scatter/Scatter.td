//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_SCATTER
#define INTARSIA_NN_SCATTER

include "dialects/Nn/NnOp.td"

def Nn_ScatteredTensor : RankedTensorOf<[F64, F32, BF16, F16, AnySignlessInteger]>;

class Nn_ScatteringOp<string mnemonic>
    : Nn_TensorOp<mnemonic, "Generic", [DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let results = (outs Nn_ScatteredTensor:$result);
}

def Nn_ScatterOp : Nn_ScatteringOp<"scatter"> {
  let summary = "A tensor with elements along an axis that others replace or are combined with";
  let description = [{
    The result is the input, in which for each position `p` of `updates`, in the order of positions along `axis`, the
    element at `p` with its coordinate along `axis` replaced by `indices[p]` becomes

    | kind | |
    |---|---|
    | `set` | `updates[p]` |
    | `add`, `mul` | its sum or product with `updates[p]` |
    | `min`, `max` | the smaller or larger one of it and `updates[p]`, signed, NaN if one is NaN |

    So the last one of equal indices sets an element. Sums and products of floats are computed in f32 at least and
    rounded once. Updates and indices have the sizes of the input but along `axis`. An index that is negative or not below
    the input's size is refused as those of `nn.embedding` are; kernels leave out its update. Each element of the result
    is compared with all indices along its axis. It is `ScatterElements` of ONNX (version 18), where negative indices
    must be made positive, `scatter` and `scatter_reduce` of PyTorch.

    Rejected: a scalar, an axis outside of the dimensions, updates and indices of other sizes, updates of another element
    type.

    ```mlir
    %y = nn.scatter <add>, %x, %indices, %updates {axis = 1} : (tensor<4x100xf32>, tensor<4x?xi64>, tensor<4x?xf32>) -> tensor<4x100xf32>
    ```
  }];
  let arguments = (ins Nn_ScatteredTensor:$input, Nn_IntegerTensor:$indices, Nn_ScatteredTensor:$updates,
                   Nn_ScatterKindAttr:$kind, I64Attr:$axis);
  let assemblyFormat = [{
    $kind `,` $input `,` $indices `,` $updates attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_ScatterNdOp : Nn_ScatteringOp<"scatter_nd"> {
  let summary = "A tensor with slices that others replace or are combined with";
  let description = [{
    Index tensors `[count]`, one for each of the first dimensions of the input; updates `[count, slice…]` with the
    remaining dimensions. The result is the input, in which for each `i`, in order, the slice at `(indices_0[i],
    indices_1[i], …)` is replaced by `updates[i]` or combined with it, by the kinds of `nn.scatter`. The last one of equal
    indices sets a slice; indices outside are refused and left out as there. It is `ScatterND` of ONNX (version 18) with
    the columns of its indices apart, `index_put`, `index_add` and `index_copy` of PyTorch.

    Rejected: no index tensor, more of them than dimensions, other ranks, counts and sizes of slices that differ, updates
    of another element type.

    ```mlir
    %y = nn.scatter_nd <set>, %x[%row, %column], %updates : (tensor<8x8x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x16xf32>) -> tensor<8x8x16xf32>
    ```
  }];
  let arguments = (ins Nn_ScatteredTensor:$input, Variadic<Nn_IntegerTensor>:$indices, Nn_ScatteredTensor:$updates,
                   Nn_ScatterKindAttr:$kind);
  let assemblyFormat = [{
    $kind `,` $input `[` $indices `]` `,` $updates attr-dict `:` functional-type(operands, results)
  }];
}

#endif
