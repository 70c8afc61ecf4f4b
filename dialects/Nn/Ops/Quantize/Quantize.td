//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_QUANTIZE
#define INTARSIA_NN_QUANTIZE

include "dialects/Nn/NnOp.td"

def Nn_QuantizeOp : Nn_Op<"quantize", [Pure, AttrSizedOperandSegments, AttrSizedResultSegments,
    DeclareOpInterfaceMethods<SizeOpInterface>, DeclareOpInterfaceMethods<CostOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "Quantized values and scales of a tensor in a block format";
  let description = [{
    Rounds to the nearest element of the format, ties to even; what is beyond its largest element becomes that.
    quantized has the shape of the input (i4 for 4-bit and ternary elements, i8 otherwise; bit patterns of the format).
    scales has, along the format's axis, a scale a block (bit patterns in i8 for `e8m0` and `e4m3`).

    How scales are chosen, with `m` the largest magnitude in a block:
    - integers: `m / largest integer`, but for `i4` `m / 8`, or `m / -8` if `-m` is not in the block: the input with the
      largest magnitude becomes -8, which adds an eighth to the range (of `i8`, -128 would add less than a hundredth,
      and activations are quantized as they are computed); with `zero_points` the range `[min(block, 0), max(block, 0)]`
      is mapped onto all integers, `zero_point = round(lowest integer - min / scale)`;
    - `ternary`: the mean magnitude of the block (arXiv 2402.17764, equation 3), then, four times, the mean of the
      magnitudes above half of the scale so far, if there are any (Lloyd's iteration, which lessens the squared error);
    - `nf4`, and floats with f32 scales: `m / largest element`;
    - MX formats: `2^(floor(log2(m)) - exponent of the largest element)` (OCP Microscaling 1.0, section 6.3), NaN for a
      block with NaN or infinity in it;
    - NVFP4: `tensor_scale = max(abs(input)) / (448 * 6)`, then `m / 6 / tensor_scale` rounded to E4M3. `tensor_scale` is
      one number of type `tensor<f32>`, or one for each row along the axis, with the shape of the input but for a 1 there:
      then the maximum is that of the row, which makes a row the same whatever other rows there are.
    Of `i4` without zero points and of NVFP4 with one `tensor_scale` more scales are tried: that one, 15/16 of it and, of
    NVFP4, 3/2 of it (before it is divided by `tensor_scale` and rounded to its type). The first that leaves the least error is taken, which is
    the sum of `(input - dequantized)^2` over the block, in f32 and in the order of its elements. 15/16 clips the largest
    value a little and makes the steps between all others smaller; 3/2 puts the largest value on 4 instead of 6.
    A scale of zero is stored as such; the quantized values of its block are zeros.

    With `channels`, a permutation of the features along the axis, what is quantized is `input[..., channels[k]]` in place of
    `input[..., k]`: features that are alike lie in one block (FMPQ: COMET, arXiv 2410.12168). A linear stays what
    it is if its input and its weight are permuted alike.

    With `wide_blocks = n` (elements `i8`, blocks of 128) the first n blocks along the axis have integers of 8 bits, and
    the others integers of 4, -7 to 7, with the scale `m / 7`. Tensors hold both as i8, so that whoever dequantizes or
    multiplies them need not know.

    With `factors`, a number for each feature along the axis (after `channels`), what is quantized is `input[..., k] *
    factors[k]`: a linear stays what it is if its weight has the reciprocals (SmoothQuant: arXiv 2211.10438, equation 3).

    With `unit_scale` (elements `i8`, scales `f32`) every scale is 1, and factors hold what the scale would be: nothing is
    looked for in the input. Integers are -128 to 127; what is beyond becomes the nearer of both, and NaN -128.

    Rejected: `channels` and `factors` of another length than the axis, constant ones that are no permutation or not finite,
    more wide blocks than there are, wide blocks of another format or with zero points, unit scales of another format, with
    wide blocks or with zero points.

    ```mlir
    %e, %u = nn.quantize %z channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1} : (tensor<?x512xf32>, tensor<512xi32>) -> (tensor<?x512xi8>, tensor<?x4xf32>)
    %g, %v = nn.quantize %z factors %r {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x512xf32>, tensor<512xf32>) -> (tensor<?x512xi8>, tensor<?x1xf32>)
    ```

    ```mlir
    %c, %s = nn.quantize %x {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x4xf16>)
    %d, %t, %r = nn.quantize %y {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<?x128xf32>) -> (tensor<?x128xi4>, tensor<?x8xi8>, tensor<?x1xf32>)
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_AnyTensor>:$channels, Optional<Nn_AnyTensor>:$factors,
                       Nn_BlockFormatAttr:$format, OptionalAttr<I64Attr>:$wide_blocks, UnitAttr:$unit_scale);
  let results = (outs Nn_AnyTensor:$quantized, Nn_AnyTensor:$scales, Optional<Nn_AnyTensor>:$zero_points,
                      Optional<Nn_AnyTensor>:$tensor_scale);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// True if `tensor_scale` is one for each row.
    bool hasRowScales();
    /// The first of the blocks that have integers of 4 bits; nothing if none have.
    std::optional<int64_t> firstNarrowBlock();
  }];
}

def Nn_DequantizeOp : Nn_Op<"dequantize", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SizeOpInterface>, DeclareOpInterfaceMethods<CostOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "The tensor that quantized values mean";
  let description = [{
    In a block format `result = scale * decode(q)`, or `scale * (q - zero_point)`, times `tensor_scale` where given;
    the operands are as `nn.quantize` gives them. Of a weight that an archive holds in that format they are weights: an
    MXFP4 tensor of `[…, features]` is values of 4 bits and scales `[…, features / 32]` (OCP Microscaling 1.0, section 5).

    ```mlir
    %x = nn.dequantize %c, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xi4>, tensor<64x4xf16>) -> tensor<64x128xf32>
    ```

    Blocks of GGUF files hold values and scales together, as ggml lays them out: bytes `[…, bytes]` are rows as the file
    has them, the result is `[…, bytes / bytes of a block * elements of a block]` in f32, equal bit for bit to
    `quants.dequantize` of the `gguf` package. Rejected: rows that are not whole blocks.

    ```mlir
    %b = nn.weight @weights["blk.0.attn_q.weight"] : tensor<2048x1152xi8>
    %w = nn.dequantize %b {format = #nn.ggml_type<q4_k>} : (tensor<2048x1152xi8>) -> tensor<2048x2048xf32>
    ```

    With `unit_scale` (elements `i8`, scales `f32`) every scale is known to be 1, as `nn.quantize` gives it: a device need
    not read them.

    A matrix that another tool quantized lies in an archive as that tool orders it (`#nn.archive_format`); operands are
    weights, or scales are dequantized ones, the result is in f32.

    ```mlir
    %q = nn.weight @weights["model.layers.0.self_attn.q_proj.weight_packed"] : tensor<64x8xi32>
    %s = nn.weight @weights["model.layers.0.self_attn.q_proj.weight_scale"] : tensor<64x2xf16>
    %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8, kept = <i4, f16, 32, axis = 1>>} : (tensor<64x8xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins Nn_AnyTensor:$quantized, Optional<Nn_AnyTensor>:$scales, Optional<Nn_AnyTensor>:$zero_points,
                       Optional<Nn_AnyTensor>:$tensor_scale, Optional<Nn_AnyTensor>:$group_indices,
                       Optional<Nn_AnyTensor>:$codebook, BlockFormatAttrInterface:$format, UnitAttr:$unit_scale);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $quantized (`,` $scales^)? (`zero_points` $zero_points^)? (`tensor_scale` $tensor_scale^)?
    (`group_indices` $group_indices^)? (`codebook` $codebook^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// True if `tensor_scale` is one for each row.
    bool hasRowScales();
  }];
}

#endif
