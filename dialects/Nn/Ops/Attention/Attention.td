//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_ATTENTION
#define INTARSIA_NN_ATTENTION

include "dialects/Nn/NnOp.td"

def Nn_AttentionOp : Nn_TensorOp<"attention", "Attention"> {
  let summary = "Scaled dot-product attention";
  let description = [{
    `result[b, i, h, :] = sum_j softmax_j(scale * dot(query[b, i, h, :], key[b, j, g, :]) + mask[b, h, i, j])
    * value[b, j, g, :]`, with `g = h / (heads / key_value_heads)`.

    query `[batch, queries, heads, head_dim]`, key `[batch, keys, key_value_heads, head_dim]`, value
    `[batch, keys, key_value_heads, value_dim]`, result `[batch, queries, heads, value_dim]`. The mask is
    `[batch|1, heads|1, queries|1, keys]`: i1 (true: may attend) or additive. With `causal` the query `i` sees the keys
    `j <= i + keys - queries`. A query that sees no key gets zeros.

    With a `precision` a device may round what it multiplies to that type, as for nn.linear: query, key, value, and the
    powers `exp(score - largest score)` that the values are multiplied by. Scores and sums are in f32. Attention may have
    the precision `i8` too: integers of 8 bits, with a scale for each row of a head of query, key and value and one for
    the powers of each query. A device may take `f16` instead, which has more bits.

    ```mlir
    %a = nn.attention %q, %k, %v mask %m {scale = 0.125 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x12x64xf32>,
        tensor<?x?x12x64xf32>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$query, Nn_FloatTensor:$key, Nn_FloatTensor:$value,
                       Optional<Nn_MaskTensor>:$mask, F32Attr:$scale, UnitAttr:$causal,
                       OptionalAttr<TypeAttr>:$precision);
  let hasCanonicalizer = 1;
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif
