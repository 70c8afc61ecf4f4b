//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CACHE_OPS
#define INTARSIA_NN_CACHE_OPS

/// Elements of a cache: floats, or i8 for bit patterns of E4M3 and for codes.
def Nn_CacheTensor : RankedTensorOf<[F32, BF16, F16, I8]>;
def Nn_ByteTensor : RankedTensorOf<[I8]>;

// Paged key/value caches (arXiv 2309.06180, section 4). A step of a language model has rows for some tokens of several
// sequences, in any mixture: the row t is at place `positions[t]` of sequence `sequences[t]`. A cache is a tensor of
// pages; row s of `page_table` lists the pages of sequence s in order.

def Nn_CacheAppendOp : Nn_TensorOp<"cache_append", "CacheAppend", [DeclareOpInterfaceMethods<InPlaceOpInterface>]> {
  let summary = "Puts rows of new tokens into a paged cache";
  let description = [{
    The result is `cache` with `rows[t, h, :]` of every token at slot `positions[t] mod page` of the page
    `page_table[sequences[t], positions[t] floordiv page]`. rows `[tokens, heads, features]`, positions and sequences
    `[tokens]`, page_table `[sequences, pages_of_a_sequence]`; cache `[pages, heads, page, features]`, or with
    `transposed` `[pages, heads, features, page]`, so that products with keys read the slots of a page side by side.
    Rows are rounded to the cache's element type; i8 are bit patterns of E4M3, saturated (arXiv 2209.05433).

    The cache is updated in place: nothing may read `cache` after the op.

    ```mlir
    %c1 = nn.cache_append %c0, %k, %positions, %sequences, %pages {transposed} : (tensor<?x2x64x32xf16>,
        tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    ```
  }];
  let arguments = (ins Nn_CacheTensor:$cache, Nn_FloatTensor:$rows, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table, UnitAttr:$transposed);
  let results = (outs Nn_CacheTensor:$result);
  let assemblyFormat = [{
    $cache `,` $rows `,` $positions `,` $sequences `,` $page_table attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_CacheAppendQuantizedOp : Nn_TensorOp<"cache_append_quantized", "CacheAppend",
                                            [DeclareOpInterfaceMethods<InPlaceOpInterface>]> {
  let summary = "Puts rows of new tokens into a paged cache of codes";
  let description = [{
    As `nn.cache_append`, into groups of codes with one scale and zero each: an element is `scale * (code - zero)`.
    Codes have 4 or 8 bits, without sign. Without `tail` a group is the row of one token and head (values): `codes`
    `[pages, heads, page, features * bits / 8]`, `parameters` `[pages, heads, 2, page]`. With `tail` a group is one
    feature of a head in all slots of a page (keys, arXiv 2402.02750): `codes` `[pages, heads, features, page * bits /
    8]`, `parameters` `[pages, heads, 2, features]`; a page is written when the token of its last slot comes, from rows
    that are rounded to f16 first. Those of earlier calls are taken from `tail` (see `nn.tail_append`), which the op
    only reads. Rows of a sequence that are in one call are side by side in the order of their positions.

    Of 4-bit codes each 16 bytes hold 32: byte i has code i in its low half and code i + 16 in its high half.
    `parameters[..., 0, :]` are scales, the bits 14 to 7 of an f16; `parameters[..., 1, :]` are zeros, in [-128, 127]
    for 4 bits, in [0, 255] for 8. With `low` and `high` the least and the largest element of the group,

    - 4 bits: `least = max((high - low) / 15, max(|low|, |high|) / 127)`;
    - 8 bits: `low` and `high` are first brought to 0 where they are beyond it, `least = (high - low) / 255`;
    - the scale is the f16 nearest to `least`, rounded up to its bits above the 7th, at least 2^-17;
      `zero = round(-low / scale)`, `code = round(x / scale) + zero`, both to even and clamped to their ranges, in f32.

    Codes and parameters are updated in place: nothing may read the operands after the op.

    ```mlir
    %c1, %p1 = nn.cache_append_quantized %c0, %p0, %k, %positions, %sequences, %pages tail %t :
        (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>,
        tensor<?x2x64x32xf16>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
    ```
  }];
  let arguments = (ins Nn_ByteTensor:$codes, Nn_ByteTensor:$parameters, Nn_FloatTensor:$rows,
                       Nn_IntegerTensor:$positions, Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table,
                       Optional<Nn_FloatTensor>:$tail);
  let results = (outs Nn_ByteTensor:$new_codes, Nn_ByteTensor:$new_parameters);
  let assemblyFormat = [{
    $codes `,` $parameters `,` $rows `,` $positions `,` $sequences `,` $page_table (`tail` $tail^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Nn_TailAppendOp : Nn_TensorOp<"tail_append", "CacheAppend", [DeclareOpInterfaceMethods<InPlaceOpInterface>]> {
  let summary = "Keeps the rows of each sequence's last page";
  let description = [{
    `result[sequences[t], h, :, positions[t] mod page] = rows[t, h, :]` for the tokens of the last page of each sequence
    in the call; the other slots stay as they are. tail `[sequences, heads, features, page]`, rows
    `[tokens, heads, features]`, positions and sequences `[tokens]`. Rows of a sequence are side by side in the order of
    their positions.

    The tail is updated in place, after everything that reads it: what reads it must come before the op.

    ```mlir
    %t1 = nn.tail_append %t0, %k, %positions, %sequences : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>,
        tensor<?xi64>) -> tensor<?x2x64x32xf16>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$tail, Nn_FloatTensor:$rows, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $tail `,` $rows `,` $positions `,` $sequences attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_CachedAttentionOp : Nn_TensorOp<"cached_attention", "CachedAttention", [AttrSizedOperandSegments]> {
  let summary = "Causal attention of new tokens over paged caches";
  let description = [{
    `result[t, h, :] = sum_j softmax_j(cap(scale * dot(query[t, h, :], key_j[g, :]))) * value_j[g, :]` over the
    positions `j` in `[max(0, positions[t] - window + 1), positions[t]]` of the token's sequence, with
    `g = h / (heads / key_value_heads)`; without `window` over all up to `positions[t]`.
    `cap(x) = soft_cap * tanh(x / soft_cap)` where `soft_cap` is given. `sinks[h]` is one more score of each head, with
    a value of zero (arXiv 2309.17453).

    query `[tokens, heads, head_dim]`, keys `[pages, key_value_heads, head_dim, page]`, values
    `[pages, key_value_heads, page, value_dim]`, result `[tokens, heads, value_dim]` of the query's element type. Keys
    and values of i8 are bit patterns of E4M3.

    With `quantized`, keys and values are the codes of `nn.cache_append_quantized` after the append of `rows`, the new
    keys, and the parameters are those of keys and of values. `tail` is as it was before `rows`. A token sees keys of
    its own page as rows rounded to the tail's type, those of earlier pages as codes, and all values as codes: what it
    sees depends on its place alone, and not on how the tokens before it were spread over calls.

    ```mlir
    %a = nn.cached_attention %q, %k, %v, %positions, %sequences, %pages {scale = 0.125 : f32} : (tensor<?x4x64xf32>,
        tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$query, Nn_CacheTensor:$keys, Nn_CacheTensor:$values, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table, Optional<Nn_FloatTensor>:$sinks,
                       Optional<Nn_ByteTensor>:$key_parameters, Optional<Nn_ByteTensor>:$value_parameters,
                       Optional<Nn_FloatTensor>:$rows, Optional<Nn_FloatTensor>:$tail,
                       F32Attr:$scale, OptionalAttr<I64Attr>:$window, OptionalAttr<F32Attr>:$soft_cap);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $keys `,` $values `,` $positions `,` $sequences `,` $page_table (`sinks` $sinks^)?
    (`quantized` `(` $key_parameters^ `,` $value_parameters `,` $rows `,` $tail `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif
