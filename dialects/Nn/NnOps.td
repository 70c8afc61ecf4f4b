//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_OPS
#define INTARSIA_NN_OPS

include "dialects/Interfaces/ContractionOpInterface.td"
include "dialects/Interfaces/CostOpInterface.td"
include "dialects/Interfaces/KernelOpInterfaces.td"
include "dialects/Interfaces/SizeOpInterface.td"
include "dialects/Nn/NnAttrs.td"
include "dialects/Nn/NnDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Nn_Float : AnyTypeOf<[F32, BF16, F16]>;
def Nn_FloatTensor : RankedTensorOf<[Nn_Float]>;
def Nn_IntegerTensor : RankedTensorOf<[I32, I64]>;
def Nn_MaskTensor : RankedTensorOf<[I1, F32, BF16, F16]>;
def Nn_AnyTensor : RankedTensorOf<[AnyType]>;

class Nn_Op<string mnemonic, list<Trait> traits = []> : Op<Nn_Dialect, mnemonic, traits>;

/// A pure op on tensors: its result type follows from its operands, its sizes are expressions, its work is known. `root`
/// is a case of KernelRoot, empty for ops that no kernel is built around.
class Nn_TensorOp<string mnemonic, string root, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>,
                                   DeclareOpInterfaceMethods<SizeOpInterface>,
                                   DeclareOpInterfaceMethods<CostOpInterface>],
                                  !if(!empty(root), []<Trait>, [KernelRootOpInterface]<Trait>), traits)> {
  let hasVerifier = 1;
  string rootDeclaration = !if(!empty(root), "",
    "static ::intarsia::KernelRoot getKernelRoot() { return ::intarsia::KernelRoot::" # root # "; }\n");
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
  }];
}

/// One tensor in, one of the same type out: the syntax states it once.
class Nn_SameTypeOp<string mnemonic, list<Trait> traits = []> : Nn_TensorOp<mnemonic, "Rows", traits> {
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let extraClassDeclaration = rootDeclaration # [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return inferred == declared;
    }
  }];
}

/// Scales and shifts rows by their mean and deviation: operands are the input, the scale and perhaps a bias.
class Nn_NormOp<string mnemonic> : Nn_TensorOp<mnemonic, "Rows", [
    DeclareOpInterfaceMethods<NormOpInterface>, DeclareOpInterfaceMethods<StoredOperandOpInterface>]> {
  let results = (outs Nn_FloatTensor:$result);
}

/// A function of each element.
class Nn_UnaryOp<string mnemonic, string formula> : Nn_SameTypeOp<mnemonic, [Elementwise]> {
  let summary = "Elementwise " # mnemonic;
  let description = "`" # formula # "`, for tensors of any shape. Computed in f32 at least.";
  let arguments = (ins Nn_FloatTensor:$input);
  let results = (outs Nn_FloatTensor:$result);
  let hasVerifier = 0;
  let hasFolder = 1;
}

//===-- Weights -----------------------------------------------------------------------------------------------===//

def Nn_ArchiveOp : Nn_Op<"archive", [Symbol]> {
  let summary = "A file of weights";
  let description = [{
    Names a weights file; `file` is relative to the model's directory (`--archives`) and stays below it: `..` and
    absolute paths are rejected, so that IR from elsewhere cannot read the user's files. The file is mapped when
    weights are packed, never read into IR.

    ```mlir
    nn.archive @weights {file = "model.safetensors"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$file);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Nn_WeightOp : Nn_Op<"weight", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor of an archive";
  let description = [{
    The tensor that `archive` holds under `key`, of static shape and of the stored type.

    ```mlir
    %w = nn.weight @weights["encoder.layer.0.output.dense.weight"] : tensor<384x1536xf32>
    ```

    A tensor of values of 4 bits is stored two a byte, the lower four bits first: `tensor<…x64xi4>` are bytes whose
    dimensions agree with it up to the last ones, such as `U8 […, 2, 16]`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$archive, StrAttr:$key);
  let results = (outs Nn_AnyTensor:$result);
  let assemblyFormat = "$archive `[` $key `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===-- Groups ------------------------------------------------------------------------------------------------===//

def Nn_GroupOp : Nn_Op<"group", [IsolatedFromAbove, Pure, SingleBlock]> {
  let summary = "What becomes one kernel";
  let description = [{
    A region for each kernel-to-be: block arguments are the operands, `nn.yield` gives the results. `root` is the kind of
    kernel (`KernelRoot` in dialects/Interfaces), `why` the reason for the choice.

    ```mlir
    %r = nn.group linear(%a = %x, %b = %w) {why = "gelu: 6.2 us inside, 9.8 apart"}
        : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
      %h = nn.linear %a, %b : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32>
      %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
      nn.yield %g : tensor<?x1536xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nn_AnyTensor>:$inputs, Nn_RootAttr:$root, OptionalAttr<StrAttr>:$why);
  let results = (outs Variadic<Nn_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    /// Makes the group with an empty body block that has an argument for each input; the caller fills it.
    OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::ValueRange":$inputs, "::intarsia::KernelRoot":$root,
                   "::llvm::StringRef":$why)>
  ];
  let extraClassDeclaration = [{
    ::mlir::Block &getBodyBlock() { return getBody().front(); }
  }];
}

def Nn_YieldOp : Nn_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"GroupOp">]> {
  let summary = "The results of a group";
  let arguments = (ins Variadic<Nn_AnyTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

//===-- Contractions ------------------------------------------------------------------------------------------===//

def Nn_LinearOp : Nn_TensorOp<"linear", "Linear", [
    DeclareOpInterfaceMethods<ContractionOpInterface>, DeclareOpInterfaceMethods<StoredOperandOpInterface>,
    DeclareOpInterfaceMethods<RowInputOpInterface>]> {
  let summary = "Fully connected layer";
  let description = [{
    `result[…, n] = sum_k input[…, k] * weight[n, k] (+ bias[n])`: input `[…, in]`, weight `[out, in]`,
    bias `[out]`, result `[…, out]` of the input's element type. Accumulates in f32 at least. Weight and bias have the
    input's element type or a narrower one, as they are stored.

    With a `precision` a device may round input and weight to that type before it multiplies them: `f16`, `bf16` or
    `tf32`. It is for devices with matrix instructions; others multiply operands as they are.

    ```mlir
    %h = nn.linear %x, %w, %b : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$bias,
                   OptionalAttr<TypeAttr>:$precision);
  let hasCanonicalizer = 1;
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

def Nn_MatmulOp : Nn_TensorOp<"matmul", "Matmul", [DeclareOpInterfaceMethods<ContractionOpInterface>]> {
  let summary = "Batched matrix multiplication of two computed tensors";
  let description = [{
    `result[b…, m, n] = sum_k lhs[b…, m, k] * rhs[b…, k, n]`; with `transpose_lhs` the lhs is `[b…, k, m]`, with
    `transpose_rhs` the rhs is `[b…, n, k]`. Batch dimensions agree one by one (static ones exactly). With a `precision`
    a device may round lhs and rhs to that type before it multiplies them, as for nn.linear.

    ```mlir
    %c = nn.matmul %a, %b {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                   OptionalAttr<TypeAttr>:$precision);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

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

//===-- Rows --------------------------------------------------------------------------------------------------===//

def Nn_LayerNormOp : Nn_NormOp<"layer_norm"> {
  let summary = "Layer normalisation over the last dimension";
  let description = [{
    `result = (input - mean) / sqrt(variance + epsilon) * scale (+ bias)`, mean and (biased) variance over the last
    dimension (arXiv 1607.06450, equation 4). scale and bias are `[features]`, of the input's element type or narrower.

    ```mlir
    %n = nn.layer_norm %x, %g, %b {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, Optional<Nn_FloatTensor>:$bias, F32Attr:$epsilon);
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

def Nn_RmsNormOp : Nn_NormOp<"rms_norm"> {
  let summary = "Root-mean-square normalisation over the last dimension";
  let description = [{
    `result = input / sqrt(mean(input^2) + epsilon) * scale` (arXiv 1910.07467, equation 4); scale is `[features]`,
    of the input's element type or narrower.

    ```mlir
    %n = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, F32Attr:$epsilon);
  let assemblyFormat = "$input `,` $scale attr-dict `:` functional-type(operands, results)";
}

def Nn_GroupNormOp : Nn_NormOp<"group_norm"> {
  let summary = "Normalisation of each group of the last dimension";
  let description = [{
    `result[…, c] = (input[…, c] - mean[…, g]) / sqrt(variance[…, g] + epsilon) * scale[c] (+ bias[c])`, with
    `g = c / (features / groups)`; mean and (biased) variance over the `features / groups` neighbours of a row that are
    in group `g`: PyTorch's `group_norm` of `[N, C]` (arXiv 1803.08494, section 3.1, for an input without positions), and
    the norm of each head's result in retention (arXiv 2307.08621, section 2.3). scale and bias are `[features]`, of the
    input's element type or narrower. Rejected: a number of features that is dynamic or no multiple of `groups`. The op
    cannot say a norm whose statistics go over several rows, as those over the positions of an image do.

    ```mlir
    %n = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 4 : i64} : (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, Optional<Nn_FloatTensor>:$bias, F32Attr:$epsilon,
                       ConfinedAttr<I64Attr, [IntPositive]>:$groups);
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

def Nn_SoftmaxOp : Nn_SameTypeOp<"softmax", [RowwiseOpInterface]> {
  let summary = "Softmax over the last dimension";
  let description = [{
    `result = exp(input - max) / sum(exp(input - max))` over the last dimension. A row of -inf gives zeros.

    ```mlir
    %p = nn.softmax %s : tensor<?x12x?x?xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- Elementwise -------------------------------------------------------------------------------------------===//

def Nn_GeluOp : Nn_UnaryOp<"gelu", "x * P(X <= x)"> {
  let description = [{
    With form `erf`: `x / 2 * (1 + erf(x / sqrt(2)))`; with form `tanh`:
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))` (arXiv 1606.08415, section 2). Computed in f32 at
    least.

    ```mlir
    %g = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_GeluFormAttr:$form);
}
def Nn_SiluOp : Nn_UnaryOp<"silu", "x / (1 + exp(-x))">;
def Nn_ReluOp : Nn_UnaryOp<"relu", "max(x, 0), NaN where x is NaN">;
def Nn_TanhOp : Nn_UnaryOp<"tanh", "tanh(x)">;
def Nn_SigmoidOp : Nn_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;

//===-- Positions and tables ----------------------------------------------------------------------------------===//

def Nn_EmbeddingOp : Nn_TensorOp<"embedding", "Rows", [
    DeclareOpInterfaceMethods<StoredOperandOpInterface>, DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "Rows of a table";
  let description = [{
    `result[…, :] = table[indices[…], :]`: table `[rows, features]`, indices of any rank. An input whose
    elements are all indices, as they are or through reshapes, concatenations and casts between integers, has the
    table's rows as its range: a call with others is refused. Any other index is known in the kernel alone, for example
    one that is computed: outside the table it gives a row of NaN. Rejected: a table without rows, constant indices
    outside it, an input whose `nn.range` or `nn.default` is not inside it.

    ```mlir
    %e = nn.embedding %table, %ids : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$table, Nn_IntegerTensor:$indices);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$table `,` $indices attr-dict `:` functional-type(operands, results)";
}

def Nn_RopeOp : Nn_TensorOp<"rope", "Rows"> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of features by `angle = positions[…] * frequencies[i]` (arXiv 2104.09864, equation 15): input
    `[…, heads, head_dim]`, positions `[…]`, frequencies `[rotary_dim / 2]`. The pair `i` is
    `(i, i + rotary_dim / 2)`, or `(2i, 2i + 1)` with `interleaved`. Features from `rotary_dim` on pass unchanged.
    Sine and cosine are multiplied by `attention_factor` (arXiv 2309.00071, section 3.4).

    ```mlir
    %r = nn.rope %q, %positions, %f {attention_factor = 1.0 : f32} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<32xf32>) -> tensor<?x?x8x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_IntegerTensor:$positions, Nn_FloatTensor:$frequencies,
                       UnitAttr:$interleaved, DefaultValuedAttr<F32Attr, "1.0f">:$attention_factor);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $positions `,` $frequencies attr-dict `:` functional-type(operands, results)";
}

include "dialects/Nn/NnCacheOps.td"
include "dialects/Nn/NnExpertOps.td"
include "dialects/Nn/NnSamplingOps.td"

//===-- Block formats -----------------------------------------------------------------------------------------===//

def Nn_QuantizeOp : Nn_Op<"quantize", [Pure, AttrSizedOperandSegments, AttrSizedResultSegments,
    DeclareOpInterfaceMethods<SizeOpInterface>, DeclareOpInterfaceMethods<CostOpInterface>]> {
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
    looked for in the input. Integers are -127 to 127; what is beyond becomes the nearer of both, and NaN -127.

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
    DeclareOpInterfaceMethods<SizeOpInterface>, DeclareOpInterfaceMethods<CostOpInterface>]> {
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
                       Optional<Nn_AnyTensor>:$codebook, BlockFormatAttrInterface:$format);
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
