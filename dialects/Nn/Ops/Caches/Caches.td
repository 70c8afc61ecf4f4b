//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CACHES
#define INTARSIA_NN_CACHES

include "dialects/Nn/NnOp.td"

/// A tensor of a cache: floats, or bytes of quantized values, of their parameters and of E4M3.
def Nn_CacheTensor : RankedTensorOf<[F32, BF16, F16, I8]>;

// Paged key/value caches (arXiv 2309.06180, section 4). A forward step of a language model has rows for some tokens of
// several sequences, in any mixture: the row t is at position `positions[t]` of sequence `sequences[t]`. A cache is a
// list of tensors, which its format defines; row s of `page_table` lists the pages of sequence s in order.

def Nn_CacheAppendOp : Nn_TensorOp<"cache_append", "CacheAppend", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<InPlaceOpInterface>,
    DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "Puts rows of new tokens into a paged cache";
  let description = [{
    The row `rows[t, h, :]` of every token goes to slot `positions[t] mod page` of the page
    `page_table[sequences[t], positions[t] floordiv page]`, rounded to the elements of the format
    (`#nn.cache_format`); E4M3 is saturated (arXiv 2209.05433). rows `[tokens, heads, features]`, positions and sequences
    `[tokens]`, page_table `[sequences, pages_of_a_sequence]`; the operands `cache` are the tensors of the format, the
    results are the next values of those that have pages.

    A page of quantized keys is written when the token of its last slot comes, from rows that are rounded to f16 first;
    those of earlier calls are taken from the tail, which the op only reads. Rows of a sequence that are in one call are
    then side by side in the order of their positions.

    With `tail` the op updates the tail of a cache instead of its pages, and is given that alone:
    `result[sequences[t], h, slot, :] = rows[t, h, :]` for the tokens of the last page of each sequence in the call; the
    other slots stay as they are. What reads the tail comes before it.

    Of an `unrotated` format the pair (i, i + n) of features, or (2i, 2i + 1) with `interleaved`, is rotated by
    `-position * frequencies[i]` before its page is quantized; there are n frequencies. Features from 2n on stay.

    The tensors are updated in place: nothing may read an operand that a result is the next value of after the op.

    ```mlir
    %c1 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %k, %positions, %sequences, %pages :
        (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) ->
        tensor<?x2x64x32xf16>
    %q1, %p1 = nn.cache_append(%q, %p, %t) <keys, ui4, page = 32, transposed>, %k, %positions, %sequences, %pages :
        (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>,
        tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
    %t1 = nn.cache_append(%t) <keys, ui4, page = 32, transposed>, %k, %positions, %sequences {tail} :
        (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
    ```
  }];
  let arguments = (ins Variadic<Nn_CacheTensor>:$cache, Nn_FloatTensor:$rows, Nn_IntegerTensor:$positions,
                       Nn_IntegerTensor:$sequences, Optional<Nn_IntegerTensor>:$page_table,
                       Optional<Nn_FloatTensor>:$frequencies, Nn_CacheFormatAttr:$format, UnitAttr:$tail,
                       UnitAttr:$interleaved);
  let results = (outs Variadic<Nn_CacheTensor>:$new_cache);
  let assemblyFormat = [{
    `(` $cache `)` $format `,` $rows `,` $positions `,` $sequences (`,` $page_table^)?
    (`frequencies` $frequencies^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_CachedAttentionOp : Nn_TensorOp<"cached_attention", "CachedAttention", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "Causal attention of new tokens over paged caches";
  let description = [{
    `result[t, h, :] = sum_j softmax_j(cap(scale * dot(query[t, h, :], key_j[g, :]))) * value_j[g, :]` over the
    positions `j` in `[max(0, positions[t] - window + 1), positions[t]]` of the token's sequence, with
    `g = h / (heads / key_value_heads)`; without `window` over all up to `positions[t]`.
    `cap(x) = soft_cap * tanh(x / soft_cap)` where `soft_cap` is given. `sinks[h]` is one more score of each head, with
    a value of zero (arXiv 2309.17453).

    query `[tokens, heads, head_dim]`, result `[tokens, heads, value_dim]` of the query's element type. `keys` and
    `values` are the tensors of two caches, each of its own format, after the append of the new tokens.

    Where the format of keys has a tail, `rows` are the new keys, and the tail is as it was before them. A token sees the
    keys of its own page as rows rounded to the tail's type, those of earlier pages as quantized values, and all values
    as the cache has them: what it sees depends on its position alone, and not on how the tokens before it were spread
    over calls.

    Keys of an `unrotated` format are rotated by `position * frequencies[i]` after they are dequantized, as
    nn.cache_append has rotated them back.

    With a `precision` a device may round what it multiplies to that type, as for nn.attention: queries, keys and values
    as the formats define them, and powers of scores.

    ```mlir
    %a = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v, %p) <values, ui8, page = 32>, %positions,
        %sequences, %pages {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xi8>,
        tensor<?x2x2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$query, Variadic<Nn_CacheTensor>:$keys, Variadic<Nn_CacheTensor>:$values,
                       Nn_IntegerTensor:$positions, Nn_IntegerTensor:$sequences, Nn_IntegerTensor:$page_table,
                       Optional<Nn_FloatTensor>:$rows, Optional<Nn_FloatTensor>:$sinks,
                       Optional<Nn_FloatTensor>:$frequencies,
                       Nn_CacheFormatAttr:$key_format, Nn_CacheFormatAttr:$value_format,
                       F32Attr:$scale, OptionalAttr<I64Attr>:$window, OptionalAttr<F32Attr>:$soft_cap,
                       OptionalAttr<TypeAttr>:$precision, UnitAttr:$interleaved);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` `(` $keys `)` $key_format `,` `(` $values `)` $value_format `,` $positions `,` $sequences `,` $page_table
    (`rows` $rows^)? (`sinks` $sinks^)? (`frequencies` $frequencies^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif
