//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CACHE_OPS
#define INTARSIA_NN_CACHE_OPS

// Paged key/value caches (arXiv 2309.06180, section 4). A step of a language model has rows for some tokens of several
// sequences, in any mixture: the row t is at place `positions[t]` of sequence `sequences[t]`. A cache is a tensor of
// pages; row s of `page_table` lists the pages of sequence s in order.

def Nn_CacheAppendOp : Nn_TensorOp<"cache_append"> {
  let summary = "Puts rows of new tokens into a paged cache";
  let description = [{
    The result is `cache` with `rows[t, h, :]` of every token at slot `positions[t] mod page` of the page
    `page_table[sequences[t], positions[t] floordiv page]`. rows `[tokens, heads, features]`, positions and sequences
    `[tokens]`, page_table `[sequences, pages_of_a_sequence]`; cache `[pages, heads, page, features]`, or with
    `transposed` `[pages, heads, features, page]`, so that products with keys read the slots of a page side by side.
    Rows are rounded to the cache's element type.

    The cache is updated in place: nothing may read `cache` after the op.

    ```mlir
    %c1 = nn.cache_append %c0, %k, %positions, %sequences, %pages {transposed} : (tensor<?x2x64x32xf16>,
        tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$cache, Nn_FloatTensor:$rows, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table, UnitAttr:$transposed);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $cache `,` $rows `,` $positions `,` $sequences `,` $page_table attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_CachedAttentionOp : Nn_TensorOp<"cached_attention"> {
  let summary = "Causal attention of new tokens over paged caches";
  let description = [{
    `result[t, h, :] = sum_j softmax_j(cap(scale * dot(query[t, h, :], key_j[g, :]))) * value_j[g, :]` over the
    positions `j` in `[max(0, positions[t] - window + 1), positions[t]]` of the token's sequence, with
    `g = h / (heads / key_value_heads)`; without `window` over all up to `positions[t]`.
    `cap(x) = soft_cap * tanh(x / soft_cap)` where `soft_cap` is given. `sinks[h]` is one more score of each head, with
    a value of zero (arXiv 2309.17453).

    query `[tokens, heads, head_dim]`, keys `[pages, key_value_heads, head_dim, page]`, values
    `[pages, key_value_heads, page, value_dim]`, result `[tokens, heads, value_dim]` of the query's element type.

    ```mlir
    %a = nn.cached_attention %q, %k, %v, %positions, %sequences, %pages {scale = 0.125 : f32} : (tensor<?x4x64xf32>,
        tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$query, Nn_FloatTensor:$keys, Nn_FloatTensor:$values, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table, Optional<Nn_FloatTensor>:$sinks,
                       F32Attr:$scale, OptionalAttr<I64Attr>:$window, OptionalAttr<F32Attr>:$soft_cap);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $keys `,` $values `,` $positions `,` $sequences `,` $page_table (`sinks` $sinks^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif
