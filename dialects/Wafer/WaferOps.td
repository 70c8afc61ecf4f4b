//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_WAFER_OPS
#define INTARSIA_WAFER_OPS

include "dialects/Wafer/WaferAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// The memory of one core: rows and columns of f16 or f32, or of quantized values.
def Wafer_Buffer : MemRefRankOf<[F16, F32, I<4>, I<8>], [2]>;

class Wafer_Op<string mnemonic, list<Trait> traits = []> : Op<Wafer_Dialect, mnemonic, traits>;

//===-- Tensor level ------------------------------------------------------------------------------------------===//

def Wafer_DistGemmOp : Wafer_Op<"dist_gemm", [Pure]> {
  let summary = "A matrix product whose operands are split over a square grid";
  let description = [{
    C[m, n] = sum over k of A[m, k] B[k, n]; with `transposed`, of A[m, k] B[n, k]. `grid` cores along each axis have one
    tile of A, B and C each, padded with zeros where `grid` does not divide a size. `mesh` is MeshGEMM: tiles travel
    around rings that are interleaved, so that each step crosses at most two links. `cannon` has the same rings in
    the order of the cores, closed by a path across the whole grid. `summa` broadcasts a column of A and a row of B in
    each step. `transposed` needs `mesh` or `cannon`: A stays, tiles of B and C travel. Rejected: sizes that disagree,
    element types other than f16 and f32.

    ```mlir
    %c = wafer.dist_gemm mesh %a, %b on 8 : tensor<64x32xf16>, tensor<32x48xf16> -> tensor<64x48xf32>
    ```
  }];
  let arguments = (ins Wafer_GemmAlgorithmAttr:$algorithm, 2DTensorOf<[F16, F32]>:$a, 2DTensorOf<[F16, F32]>:$b,
                       I64Attr:$grid, UnitAttr:$transposed);
  let results = (outs 2DTensorOf<[F16, F32]>:$c);
  let assemblyFormat = [{
    $algorithm (`transposed` $transposed^)? $a `,` $b `on` $grid attr-dict `:` type($a) `,` type($b) `->` type($c)
  }];
  let hasVerifier = 1;
}

def Wafer_DistGemvOp : Wafer_Op<"dist_gemv", [Pure]> {
  let summary = "A vector times a matrix that is split over a square grid";
  let description = [{
    y[0, n] = sum over k of x[0, k] W[k, n]. The vector is split along one axis and copied along the other, and so is
    the result, with the axes exchanged: a chain of products needs no transposition, each has its weight placed with
    axes exchanged. Partial sums are added along the axis of x: by a `tree` of two levels of `groups` groups,
    by a `pipeline` from one end to the other, or around a `ring`; afterwards all cores have the result. Rejected: sizes
    that disagree, `groups` for anything else than a tree or not between 1 and `grid`.

    ```mlir
    %y = wafer.dist_gemv tree %x, %w on 8 groups 2 : tensor<1x64xf16>, tensor<64x32xf16> -> tensor<1x32xf16>
    ```
  }];
  let arguments = (ins Wafer_ReductionAttr:$reduction, 2DTensorOf<[F16, F32]>:$x, 2DTensorOf<[F16, F32]>:$w,
                       I64Attr:$grid, OptionalAttr<I64Attr>:$groups);
  let results = (outs 2DTensorOf<[F16, F32]>:$y);
  let assemblyFormat = [{
    $reduction $x `,` $w `on` $grid (`groups` $groups^)? attr-dict `:` type($x) `,` type($w) `->` type($y)
  }];
  let hasVerifier = 1;
}

def Wafer_DistMapOp : Wafer_Op<"dist_map", [Pure, SameOperandsAndResultType]> {
  let summary = "A function of each element of vectors or matrices that are split over a grid";
  let description = [{
    `exp`, `silu`, `gelu`, `gelu_tanh`, `relu` and `tanh` of one vector or matrix, `add` and `multiply` of two
    that lie alike. Nothing is moved.

    ```mlir
    %z = wafer.dist_map silu %y on 8 : tensor<1x32xf16>
    ```
  }];
  let arguments = (ins Wafer_ArithmeticAttr:$function, Variadic<2DTensorOf<[F16, F32]>>:$inputs, I64Attr:$grid);
  let results = (outs 2DTensorOf<[F16, F32]>:$result);
  let assemblyFormat = "$function $inputs `on` $grid attr-dict `:` type($result)";
  let extraClassDeclaration = "static bool isFunction(Arithmetic function);";
  let hasVerifier = 1;
}

def Wafer_DistNormOp : Wafer_Op<"dist_norm", [Pure, SameOperandsAndResultType]> {
  let summary = "A norm of a vector, or of the rows of a matrix, that is split over a grid";
  let description = [{
    `rms`: x / sqrt(mean(x^2) + epsilon) * scale; `layer`: (x - mean(x)) / sqrt(variance(x) + epsilon) * scale (+ bias),
    with the biased variance, as nn.rms_norm and nn.layer_norm. Sums are added along the axis of a row over a tree of two
    levels; the result lies where x does. Scale and bias have the size of x: those of a matrix are the same in each row.
    Rejected: other types than f32, several sizes.

    ```mlir
    %n = wafer.dist_norm rms %x, %scale on 8 {epsilon = 1.0e-6 : f32} : tensor<1x64xf32>
    ```
  }];
  let arguments = (ins Wafer_NormAttr:$norm, Variadic<2DTensorOf<[F32]>>:$inputs, I64Attr:$grid, F32Attr:$epsilon);
  let results = (outs 2DTensorOf<[F32]>:$result);
  let assemblyFormat = "$norm $inputs `on` $grid attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    ::mlir::Value getX() { return getInputs()[0]; }
    ::mlir::Value getScale() { return getInputs()[1]; }
    /// Returns the bias, or null.
    ::mlir::Value getBias() { return getInputs().size() == 3 ? getInputs()[2] : ::mlir::Value(); }
  }];
  let hasVerifier = 1;
}

def Wafer_DistAttentionOp : Wafer_Op<"dist_attention", [Pure]> {
  let summary = "Attention of the query heads that share key and value heads, over caches that are split over a grid";
  let description = [{
    For each row of the query, softmax over the tokens j of the cache of `cap(scale * dot(query, key_j))`, times value_j,
    for the tokens `j <= position` of the row, or those of the last `window`; cap(x) = soft_cap * tanh(x / soft_cap).

    Tokens are split along y, features along x: `columns` columns of cores hold the features of one key head, as do the
    next ones those of the next head, `heads` of them. All operands have this form: query `[rows, grid * tile]`, keys and
    values `[grid * slots, grid * tile]`, the result that of the query; rows of the query are different heads of one group,
    and different tokens. A tile holds pairs of features, i and i + head_dim / 2, so that rotary embeddings (with
    `frequencies` `[1, grid * tile / 2]`) move nothing. The caches lie as wafer.dist_append leaves them.

    ```mlir
    %o = wafer.dist_attention %q, %k, %v, %positions on 4 heads 2 columns 2 {scale = 0.25 : f32} :
        tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
    ```
  }];
  let arguments = (ins 2DTensorOf<[F16, F32]>:$query, 2DTensorOf<[F16, F32]>:$keys, 2DTensorOf<[F16, F32]>:$values,
                       2DTensorOf<[F32]>:$positions, Optional<2DTensorOf<[F32]>>:$frequencies, I64Attr:$grid,
                       I64Attr:$heads, I64Attr:$columns, F32Attr:$scale, OptionalAttr<I64Attr>:$window,
                       OptionalAttr<F32Attr>:$soft_cap);
  let results = (outs 2DTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $query `,` $keys `,` $values `,` $positions (`rotated` `by` $frequencies^ `:` type($frequencies))? `on` $grid
    `heads` $heads `columns` $columns attr-dict `:` type($query) `,` type($keys) `,` type($values) `,` type($positions)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Wafer_DistAppendOp : Wafer_Op<"dist_append", [Pure, AttrSizedOperandSegments]> {
  let summary = "Puts the row of a new token into a cache whose tokens are spread evenly over the rows of a grid";
  let description = [{
    Cache `[grid * slots, grid * tile]` and row `[1, grid * tile]` as for wafer.dist_attention. Of n tokens the rows of
    cores have n / grid each, in the order of the tokens, and the last n mod grid of them one more. The new token comes to
    the last row; if that had one more than others already, each row that had passes its oldest token to the row before
    it, all in one step (WaferLLM, arXiv 2502.04563). Token t is in slot t mod slots of its row.

    ```mlir
    %n = wafer.dist_append %cache, %row on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins 2DTensorOf<[F16, F32]>:$cache, 2DTensorOf<[F32]>:$row, Optional<2DTensorOf<[F32]>>:$positions,
                       Optional<2DTensorOf<[F32]>>:$frequencies, I64Attr:$grid, DefaultValuedAttr<F32Attr, "1.0f">:$factor);
  let results = (outs 2DTensorOf<[F16, F32]>:$result);
  let assemblyFormat = [{
    $cache `,` $row (`at` $positions^ `:` type($positions))? (`rotated` `by` $frequencies^ `:` type($frequencies))? `on`
    $grid attr-dict `:` type($cache) `,` type($row) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Wafer_DistDecodeOp : Wafer_Op<"dist_decode", [Pure]> {
  let summary = "A matrix that the cores keep as quantized values and scales";
  let description = [{
    W[k, n] = codes[k, n] * scales[k / s, n], for the product that reads it: codes and scales stay in the memory of the
    cores, which decode their tile when the program begins. `s` rows of a tile share a scale; it divides the rows of a
    tile, so that no tile begins within them. Rejected: sizes that disagree, other integers than i4 and i8.

    ```mlir
    %w = wafer.dist_decode %codes, %scales on 4 : tensor<64x32xi4>, tensor<8x32xf16> -> tensor<64x32xf16>
    ```
  }];
  let arguments = (ins 2DTensorOf<[I<4>, I<8>]>:$codes, 2DTensorOf<[F16, F32]>:$scales, I64Attr:$grid);
  let results = (outs 2DTensorOf<[F16, F32]>:$w);
  let assemblyFormat = "$codes `,` $scales `on` $grid attr-dict `:` type($codes) `,` type($scales) `->` type($w)";
  let hasVerifier = 1;
}

def Wafer_DistRelayoutOp : Wafer_Op<"dist_relayout", [Pure, SameOperandsAndResultType]> {
  let summary = "Moves a matrix from where products of vectors have it to where products of matrices do";
  let description = [{
    The same matrix elsewhere: at first on the first `from` columns and rows of cores, with its rows along `along` and its
    columns along the other axis, as the weight of a wafer.dist_gemv; in the end on the first `to` of them as
    the second factor of a wafer.dist_gemm by `mesh`. `grid` cores along each axis take part. Tiles travel around the
    interleaved rings of one axis, then what each core keeps of them around those of the other. Rejected: `from` or `to`
    that is not between 2 and `grid`, `along` none.

    ```mlir
    %v = wafer.dist_relayout %w along y from 4 to 6 on 6 : tensor<64x32xf16>
    ```
  }];
  let arguments = (ins 2DTensorOf<[F16, F32, I<4>, I<8>]>:$source, Wafer_AxisAttr:$along, I64Attr:$from, I64Attr:$to,
                       I64Attr:$grid);
  let results = (outs 2DTensorOf<[F16, F32, I<4>, I<8>]>:$result);
  let assemblyFormat = "$source `along` $along `from` $from `to` $to `on` $grid attr-dict `:` type($source)";
  let hasVerifier = 1;
}

//===-- Core level --------------------------------------------------------------------------------------------===//

def Wafer_ProgramOp : Wafer_Op<"program", [Symbol, SymbolTable, SingleBlock, NoTerminator, NoRegionArguments,
                                           IsolatedFromAbove]> {
  let summary = "What the cores of a grid do";
  let description = [{
    Buffers, routes and the ops of all role classes in one order; a core executes those whose class it is in. `at` says
    where on the wafer the grid begins. Columns and rows of the wafer that have a core that does not work, between the first
    and the last ones of the grid, are not part of it. Verified: the grid is on the wafer, the buffers and what the runtime reserves fit into the memory of a core. What needs a walk
    through all iterations (colors that meet, receives without a send, transfers that overlap in memory) is checked
    by `wafer-verify`.

    ```mlir
    wafer.program @shift on #wafer.target<…> grid 4 by 2 {
      %a = wafer.buffer "a" : memref<1x8xf16>
      %b = wafer.buffer "b" : memref<1x8xf16>
      wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
      wafer.send %a on @east at #wafer.cores<x = <start = 0, end = 3>> : memref<1x8xf16>
      wafer.receive %b on @east at #wafer.cores<x = <start = 1, end = 4>> : memref<1x8xf16>
      wafer.await
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Wafer_TargetAttr:$target, I64Attr:$columns, I64Attr:$rows,
                       OptionalAttr<DenseI64ArrayAttr>:$origin);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `on` $target `grid` $columns `by` $rows (`at` $origin^)? attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Wafer_RouteOp : Wafer_Op<"route", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "Paths of messages along one axis, set before the program starts";
  let description = [{
    Each position has at most one path that starts there. All rows (columns) of the grid have the same paths along x (y).
    A path whose `start` moves is set again in each iteration, which costs `stage_cycles`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Wafer_AxisAttr:$axis, Wafer_PathArrayAttr:$paths);
  let assemblyFormat = "$sym_name `along` $axis $paths attr-dict";
  let hasVerifier = 1;
}

def Wafer_BufferOp : Wafer_Op<"buffer", [HasParent<"ProgramOp">]> {
  let summary = "Memory of each core";
  let description = [{
    `at` is the first byte, counted from the end of what the runtime reserves: buffers that are not in use at the same
    time may have the same bytes, as `wafer-lower-functions` places them. Writing a buffer makes those undefined that
    share bytes with it. Without `at` in any buffer of a program, each has bytes of its own. Rejected: `at` in some buffers only, or no
    multiple of 4.

    ```mlir
    %a = wafer.buffer "a" at 128 : memref<1x8xf16>
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Wafer_Buffer:$buffer);
  let assemblyFormat = "$name (`at` $offset^)? attr-dict `:` type($buffer)";
}

class Wafer_InputOutputOp<string mnemonic, string word> : Wafer_Op<mnemonic, [HasParent<"ProgramOp">]> {
  let arguments = (ins Wafer_Buffer:$buffer, I64Attr:$argument, Wafer_TilesAttr:$tiles, TypeAttr:$matrix);
  let assemblyFormat = "$buffer `" # word # "` $argument `as` $tiles attr-dict `:` type($buffer) `,` $matrix";
  let hasVerifier = 1;
}
def Wafer_LoadOp : Wafer_InputOutputOp<"load", "from"> {
  let summary = "Puts the tiles of an input into a buffer before the program starts";
}
def Wafer_StoreOp : Wafer_InputOutputOp<"store", "to"> {
  let summary = "Takes an output from a buffer when the program has ended";
}

def Wafer_SendOp : Wafer_Op<"send"> {
  let summary = "Starts to send a buffer";
  let description = "The buffer must not be written before the core's next `await`.";
  let arguments = (ins Wafer_Buffer:$buffer, FlatSymbolRefAttr:$route, OptionalAttr<Wafer_CoresAttr>:$cores);
  let assemblyFormat = "$buffer `on` $route (`at` $cores^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Wafer_ReceiveOp : Wafer_Op<"receive"> {
  let summary = "Starts to receive into a buffer";
  let description = [{
    The buffer must not be read or written before the core's next `await`. With `add`, what arrives is added to what the
    buffer holds; with `add maximum` the larger of both is kept instead of their sum.
  }];
  let arguments = (ins Wafer_Buffer:$buffer, FlatSymbolRefAttr:$route, UnitAttr:$add, UnitAttr:$maximum,
                       OptionalAttr<Wafer_CoresAttr>:$cores);
  let assemblyFormat = "(`add` $add^)? (`maximum` $maximum^)? $buffer `on` $route (`at` $cores^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Wafer_ForwardOp : Wafer_Op<"forward"> {
  let summary = "Receives a message and sends it on while it arrives";
  let description = [{
    With `add`, the buffer is added to the message on its way and stays as it is; without, the message is stored in the
    buffer and passed on. Messages may run through a whole row of cores in one op.
  }];
  let arguments = (ins Wafer_Buffer:$buffer, FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$destination, UnitAttr:$add,
                       UnitAttr:$maximum, OptionalAttr<Wafer_CoresAttr>:$cores);
  let assemblyFormat = "(`add` $add^)? (`maximum` $maximum^)? $buffer `from` $source `on` $destination (`at` $cores^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Wafer_AwaitOp : Wafer_Op<"await"> {
  let summary = "Waits until all transfers that the core has started are done";
  let arguments = (ins OptionalAttr<Wafer_CoresAttr>:$cores);
  let assemblyFormat = "(`at` $cores^)? attr-dict";
}

def Wafer_ComputeOp : Wafer_Op<"compute"> {
  let summary = "Computes in the memory of a core";
  let description = [{
    The result is the first buffer: `zero %c`; `copy`, `add` (c += a), `multiply` (c *= a) and functions such as `exp`
    (c = exp a) with `%c, %a`; `sum` and `sum_squares` of each row of a, and `affine` (c = factor a + addend) and
    `rsqrt` (c = 1 / sqrt(factor a + addend)), which may have these two attributes; `scale` (c *= a) and `shift` (c += a)
    by an a with one element for each row of c; `gemm %c, %a, %b` (C += A B), `gemm_transposed` (C += A B^T) and `gemv`, which is gemm for one row.
    The f32 sums of one op are rounded to the element type of C. `decode %w, %codes, %scales`: w[k, n] = codes[k, n] *
    scales[k / s, n], where s is the rows of codes for each of scales; only it reads quantized values.

    Of attention: `largest` of each row of a; `reciprocal`; `rotate %c, %positions, %frequencies` turns the pairs of
    features (i, i + half) of each row by its position times the pair's frequency, and multiplies by `factor`. Caches have
    as many tokens as the launch says, on rows of cores as wafer.dist_append spreads them: `mask %s, %positions` sets the
    elements of %s, scores of the tokens in the slots of a core, to a large negative number where the slot has no token, or
    one after the row's position or before the last `factor` ones (0: all); `take %e, %cache` is the oldest token of the
    core before the append, `put %cache, %e` sets its latest one after it.

    `collect %kept, %passing` has a `relayout` and is in the body of a repeat, in iteration i of which %passing is the tile
    that has made i steps around a ring of all cores: elements of %kept that are in it are set.
  }];
  let arguments = (ins Wafer_ArithmeticAttr:$arithmetic, Variadic<Wafer_Buffer>:$buffers,
                       OptionalAttr<Wafer_CoresAttr>:$cores, OptionalAttr<F32Attr>:$factor, OptionalAttr<F32Attr>:$addend,
                       OptionalAttr<Wafer_RelayoutAttr>:$relayout);
  let assemblyFormat = "$arithmetic $buffers (`at` $cores^)? attr-dict `:` type($buffers)";
  let hasVerifier = 1;
}

def Wafer_RepeatOp : Wafer_Op<"repeat", [SingleBlock]> {
  let summary = "Repeats ops";
  let description = [{
    The body's arguments are buffers: at first the operands, then what `yield` gave. Exchanging two of them is a double
    buffer. A repeat holds no other one. With `launches` each launch of the program does one iteration alone: that of the
    tokens of its cache modulo `count`.

    ```mlir
    wafer.repeat 8 (%a, %b) : memref<4x4xf16>, memref<4x4xf16> {
    ^bb0(%now: memref<4x4xf16>, %next: memref<4x4xf16>):
      …
      wafer.yield %next, %now : memref<4x4xf16>, memref<4x4xf16>
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, Variadic<Wafer_Buffer>:$buffers, UnitAttr:$launches);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`launches` $launches^)? $count (`(` $buffers^ `)` `:` type($buffers))? attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Wafer_YieldOp : Wafer_Op<"yield", [Terminator, HasParent<"RepeatOp">]> {
  let summary = "Ends an iteration";
  let arguments = (ins Variadic<Wafer_Buffer>:$buffers);
  let assemblyFormat = "($buffers^ `:` type($buffers))? attr-dict";
}

#endif
