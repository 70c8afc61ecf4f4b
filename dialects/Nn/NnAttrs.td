//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_ATTRS
#define INTARSIA_NN_ATTRS

include "dialects/Nn/NnDialect.td"
include "dialects/Interfaces/BlockFormatInterface.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Nn_GeluForm : I32EnumAttr<"GeluForm", "how gelu is computed", [
    I32EnumAttrCase<"Erf", 0, "erf">, I32EnumAttrCase<"Tanh", 1, "tanh">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_GeluFormAttr : EnumAttr<Nn_Dialect, Nn_GeluForm, "gelu_form"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_GatedActivation : I32EnumAttr<"GatedActivation", "how a gate and what it gates are combined", [
    I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"ClampedSwiglu", 1, "clamped_swiglu">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_GatedActivationAttr : EnumAttr<Nn_Dialect, Nn_GatedActivation, "gated_activation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_PoolKind : I32EnumAttr<"PoolKind", "how the elements of a window are combined", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Average", 1, "average">, I32EnumAttrCase<"Lp", 2, "lp">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_PoolKindAttr : EnumAttr<Nn_Dialect, Nn_PoolKind, "pool_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_Interpolation : I32EnumAttr<"Interpolation", "how a value between elements is made of them", [
    I32EnumAttrCase<"Nearest", 0, "nearest">, I32EnumAttrCase<"Linear", 1, "linear">,
    I32EnumAttrCase<"Cubic", 2, "cubic">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_InterpolationAttr : EnumAttr<Nn_Dialect, Nn_Interpolation, "interpolation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_NearestRounding : I32EnumAttr<"NearestRounding", "which element is the nearest one to a coordinate", [
    I32EnumAttrCase<"Floor", 0, "floor">, I32EnumAttrCase<"Ceil", 1, "ceil">,
    I32EnumAttrCase<"HalfDown", 2, "half_down">, I32EnumAttrCase<"HalfUp", 3, "half_up">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_NearestRoundingAttr : EnumAttr<Nn_Dialect, Nn_NearestRounding, "nearest_rounding"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_PadKind : I32EnumAttr<"PadKind", "what lies around a tensor", [
    I32EnumAttrCase<"Constant", 0, "constant">, I32EnumAttrCase<"Reflect", 1, "reflect">,
    I32EnumAttrCase<"Edge", 2, "edge">, I32EnumAttrCase<"Wrap", 3, "wrap">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_PadKindAttr : EnumAttr<Nn_Dialect, Nn_PadKind, "pad_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_OutsideKind : I32EnumAttr<"OutsideKind", "what positions outside of an image read", [
    I32EnumAttrCase<"Zeros", 0, "zeros">, I32EnumAttrCase<"Border", 1, "border">,
    I32EnumAttrCase<"Reflection", 2, "reflection">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_OutsideKindAttr : EnumAttr<Nn_Dialect, Nn_OutsideKind, "outside_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_ScatterKind : I32EnumAttr<"ScatterKind", "how an element is combined with its updates", [
    I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"Max", 4, "max">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_ScatterKindAttr : EnumAttr<Nn_Dialect, Nn_ScatterKind, "scatter_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_RecurrentKind : I32EnumAttr<"RecurrentKind", "the formula of a recurrent layer", [
    I32EnumAttrCase<"Lstm", 0, "lstm">, I32EnumAttrCase<"Gru", 1, "gru">, I32EnumAttrCase<"Rnn", 2, "rnn">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_RecurrentKindAttr : EnumAttr<Nn_Dialect, Nn_RecurrentKind, "recurrent_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_Direction : I32EnumAttr<"Direction", "the order in which a recurrent layer goes over a sequence", [
    I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Reverse", 1, "reverse">,
    I32EnumAttrCase<"Bidirectional", 2, "bidirectional">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_DirectionAttr : EnumAttr<Nn_Dialect, Nn_Direction, "direction"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_RecurrentActivation : I32EnumAttr<"RecurrentActivation", "an activation of a recurrent layer", [
    I32EnumAttrCase<"Sigmoid", 0, "sigmoid">, I32EnumAttrCase<"Tanh", 1, "tanh">, I32EnumAttrCase<"Relu", 2, "relu">,
    I32EnumAttrCase<"Affine", 3, "affine">, I32EnumAttrCase<"LeakyRelu", 4, "leaky_relu">,
    I32EnumAttrCase<"ThresholdedRelu", 5, "thresholded_relu">, I32EnumAttrCase<"ScaledTanh", 6, "scaled_tanh">,
    I32EnumAttrCase<"HardSigmoid", 7, "hard_sigmoid">, I32EnumAttrCase<"Elu", 8, "elu">,
    I32EnumAttrCase<"Softsign", 9, "softsign">, I32EnumAttrCase<"Softplus", 10, "softplus">]> {
  let cppNamespace = "::intarsia::nn";
  let genSpecializedAttr = 0;
}
def Nn_RecurrentActivationAttr : EnumAttr<Nn_Dialect, Nn_RecurrentActivation, "recurrent_activation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_RootAttr : AttrDef<Nn_Dialect, "Root"> {
  let mnemonic = "root";
  let summary = "The kind of a kernel";
  let parameters = (ins "::intarsia::KernelRoot":$value);
  let assemblyFormat = "`<` $value `>`";
  let convertFromStorage = "$_self.getValue()";
  let returnType = "::intarsia::KernelRoot";
  let constBuilderCall = "::intarsia::nn::RootAttr::get($_builder.getContext(), $0)";
}

def Nn_BlockElement : I32EnumAttr<"BlockElement", "what one element of a block format is", [
    I32EnumAttrCase<"I4", 0, "i4">, I32EnumAttrCase<"U4", 1, "u4">, I32EnumAttrCase<"I8", 2, "i8">,
    I32EnumAttrCase<"U8", 3, "u8">, I32EnumAttrCase<"E2M1", 4, "e2m1">, I32EnumAttrCase<"E2M3", 5, "e2m3">,
    I32EnumAttrCase<"E3M2", 6, "e3m2">, I32EnumAttrCase<"E4M3", 7, "e4m3">, I32EnumAttrCase<"E5M2", 8, "e5m2">,
    I32EnumAttrCase<"NF4", 9, "nf4">, I32EnumAttrCase<"Ternary", 10, "ternary">, I32EnumAttrCase<"I6", 11, "i6">,
    I32EnumAttrCase<"I5", 12, "i5">]> {
  let cppNamespace = "::intarsia::nn";
}
def Nn_BlockScale : I32EnumAttr<"BlockScale", "how the scale of a block is stored", [
    I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"F16", 1, "f16">, I32EnumAttrCase<"BF16", 2, "bf16">,
    I32EnumAttrCase<"E8M0", 3, "e8m0">, I32EnumAttrCase<"E4M3", 4, "e4m3">]> {
  let cppNamespace = "::intarsia::nn";
}

def Nn_BlockFormatAttr : AttrDef<Nn_Dialect, "BlockFormat", [DeclareAttrInterfaceMethods<BlockFormatAttrInterface>]> {
  let mnemonic = "block_format";
  let summary = "What the quantized values and scales of a block-scaled tensor mean";
  let description = [{
    `#nn.block_format<element, scale, block, axis>`: along `axis`, every `block` elements share a scale
    (`block = 0`: the whole axis does). A quantized value `q` stands for `scale * decode(q)`, with a zero
    point for `scale * (q - zero_point)` where the op has zero points, and with a tensor scale (NVFP4) also times that.

    | element | scale | block | known as |
    |---|---|---|---|
    | `i4`, `u4`, `i5`, `i6`, `i8`, `u8` | `f16`, `bf16`, `f32` | 32, 64, 128, 256, 0 | INT4, INT5, INT6, INT8 groups |
    | `e2m1` | `e8m0` | 32 | MXFP4 (OCP Microscaling 1.0) |
    | `e2m3`, `e3m2` | `e8m0` | 32 | MXFP6 |
    | `e4m3`, `e5m2` | `e8m0` | 32 | MXFP8 |
    | `e2m1` | `e4m3` | 16 | NVFP4, with an f32 scale for the tensor, or for each row |
    | `e4m3`, `e5m2` | `f32` | 0 | FP8 |
    | `nf4` | `f32`, `f16`, `bf16` | 64 | NF4 (arXiv 2305.14314, appendix E) |
    | `ternary` | `f32`, `f16`, `bf16` | 32, 64, 128, 256, 0 | {-1, 0, 1}: BitNet b1.58, TQ1_0 and TQ2_0 of ggml |
  }];
  let parameters = (ins EnumParameter<Nn_BlockElement>:$element, EnumParameter<Nn_BlockScale>:$scale,
                        "int64_t":$block, "int64_t":$axis);
  let assemblyFormat = "`<` $element `,` $scale `,` $block `,` `axis` `=` $axis `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bits of a quantized value as tensors hold it: 4 or 8.
    unsigned getStorageBits() const;
    /// Element type of the tensor of quantized values (i4 or i8), and of zero points.
    ::mlir::Type getStorageType() const;
    /// Element type of the tensor of scales: a float type, or i8 for E8M0 and E4M3 bit patterns.
    ::mlir::Type getScaleType() const;
    /// Number of blocks along an axis of this size; dynamic if that is.
    int64_t getBlockCount(int64_t size) const;
    /// True if there may be zero points: integer elements.
    bool mayHaveZeroPoints() const;
    /// True if a scale for the whole tensor, or for each row, belongs to it: NVFP4.
    bool hasTensorScale() const;
  }];
}

def Nn_ArchiveOrder : I32EnumAttr<"ArchiveOrder", "how an archive orders the quantized values of a matrix", [
    I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"Columns", 1, "columns">,
    I32EnumAttrCase<"Interleaved", 2, "interleaved">, I32EnumAttrCase<"HighFirst", 3, "high_first">,
    I32EnumAttrCase<"Quarters", 4, "quarters">]> {
  let cppNamespace = "::intarsia::nn";
}

def Nn_ArchiveFormatAttr : AttrDef<Nn_Dialect, "ArchiveFormat",
                                   [DeclareAttrInterfaceMethods<BlockFormatAttrInterface>]> {
  let mnemonic = "archive_format";
  let summary = "How an archive that another tool wrote holds a quantized matrix";
  let description = [{
    `#nn.archive_format<order, element, group = g>`: a matrix `[N, K]` (output features, input features) of values of
    `element`, of which `g` input features of an output feature share a scale (0: all of them do), and with `rows = r` so
    many output features too (0: all of them). A value means `scale * (q - zero)`, where `zero` is the attribute of that
    name, and with zero points their sum modulo the number of integers. Of `e2m1` with scales in E4M3 it is
    `scale / tensor_scale * q`. With group indices `[K]`, integers, they say which group an input feature belongs to.

    With a codebook, a tensor of f32 for each bit pattern, `q` is what it has for the pattern. Scales are divided by
    `scale_divisor`, and `scale_offset` is added to them, both in f32. With `inverse` the scale is one that values are
    divided by: a value means `1 / scale * (q - zero)`.

    Values lie in words, integers without a sign in words of 32 bits (i32), others in bytes; the first value of a word has
    its lowest bits, but the highest ones of a byte in the order `high_first`. `ternary` values are 0, 1 and 2, of two
    bits each, with a zero of 1. In `rows` they are floats that the packer rounds, without scales: the scale is the mean
    magnitude of the matrix. The tensors are, with P values in a word and G groups:

    | order | known as | quantized values | scales | zero points |
    |---|---|---|---|---|
    | `rows` | compressed-tensors, FP8 | `[N, K / P]`, words along K | `[N, G]` | `[N / P, G]`, words along N |
    | `columns` | GPTQ | `[K / P, N]`, words along K | `[G, N]` | `[G, N / P]`, words along N |
    | `high_first` | bitsandbytes | `[N, K / 2]`, bytes along K | `[N, G]` | |
    | `interleaved` | AWQ | `[K, N / P]`, words along N | `[G, N]` | `[G, N / P]`, words along N |
    | `quarters` | BitNet | `[N / 4, K]`, words along N | `[1]` | |
    | `rows` of `ternary` | BitNet, "online" | `[N, K]`, floats | | |

    A word of AWQ holds output features 0, 2, 4, 6, 1, 3, 5, 7, from its lowest bits on; byte n of BitNet the features n,
    n + N / 4, n + 2 N / 4 and n + 3 N / 4. Scales are of any type of floats; those of `e2m1` and `e4m3` may be E8M0 as
    bytes, and those of `e2m1` E4M3.
    Values of whole words of one value, such as `i8`, may be a transposed or reshaped tensor of the archive.
    Zero points of `i8` are bytes `[N, G]`; its scales may be left out, and are 1 then. Those of integers without a sign may be bytes in `rows`, each with P zero
    points that follow one another along the groups, `[N, G / P]` rounded up (ONNX's `MatMulNBits`). Values of `u4` may
    have 2 bits in `rows`: bytes `[N, K / 8, 2]`, with bytes of zero points of 2 bits. Scales may themselves be
    dequantized: bitsandbytes stores those of `u4` as bytes with a codebook (arXiv 2305.14314, section 3).

    `kept` is the block format that holds the same values: kernels read those. Without it the matrix is dequantized to
    f32 when weights are packed.
  }];
  let parameters = (ins EnumParameter<Nn_ArchiveOrder>:$order, EnumParameter<Nn_BlockElement>:$element,
                        "int64_t":$group, DefaultValuedParameter<"int64_t", "1">:$rows,
                        DefaultValuedParameter<"int64_t", "0">:$zero, DefaultValuedParameter<"bool", "false">:$inverse,
                        OptionalParameter<"::mlir::FloatAttr", "f32, null: 1">:$scale_divisor,
                        OptionalParameter<"::mlir::FloatAttr", "f32, null: 0">:$scale_offset,
                        OptionalParameter<"BlockFormatAttr">:$kept);
  let assemblyFormat = [{
    `<` $order `,` $element `,` struct($group, $rows, $zero, $inverse, $scale_divisor, $scale_offset, $kept) `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bits of a value, and of the words that values lie in.
    unsigned getBits() const;
    unsigned getWordBits() const;
    int64_t getValuesOfWord() const { return getWordBits() / getBits(); }
    /// True if words follow one another in rows of the matrix.
    bool hasRows() const { return getOrder() == ArchiveOrder::Rows || getOrder() == ArchiveOrder::HighFirst; }
    /// Number of groups of `inputs` input features; of blocks of `outputs` output features.
    int64_t getGroups(int64_t inputs) const;
    int64_t getRowBlocks(int64_t outputs) const;
  }];
}

def Nn_CacheKind : I32EnumAttr<"CacheKind", "what a cache holds of each token", [
    I32EnumAttrCase<"Keys", 0, "keys">, I32EnumAttrCase<"Values", 1, "values">]> {
  let cppNamespace = "::intarsia::nn";
}

def Nn_CacheFormatAttr : AttrDef<Nn_Dialect, "CacheFormat"> {
  let mnemonic = "cache_format";
  let summary = "What the tensors of a paged cache hold, and how their pages are laid out";
  let description = [{
    `#nn.cache_format<keys>` is a cache of keys about which nothing is decided: it holds `f32`, and how many tokens a page
    has is a dynamic size. `#nn.cache_format<keys, f32>` is to hold `f32`, which the quantize phase leaves as it is, in
    pages of any size. `#nn.cache_format<keys, ui4, page = 32, transposed>` has pages of 32 tokens, whose matrix of each
    head is `[features, page]` instead of `[page, features]`. Elements are `f32`, `f16`, `bf16`, `f8E4M3FN` (stored as bit
    patterns in i8) or quantized: `ui4`, `ui8`. The tensors of a cache follow from its format:

    | elements | tensors |
    |---|---|
    | floats | elements `[pages, heads, page, features]` |
    | quantized | the same in bytes, i8; parameters `[pages, heads, 2, groups]`, i8 |
    | quantized keys | also a tail `[sequences, heads, page, features]`, f16 |

    With `transposed` the last two dimensions of elements and tail are exchanged. A quantized element `q` of a group
    stands for `scale * (q - zero)`. A group of values is the row of one token and head, so that a page has as many
    groups as tokens; a group of keys is one feature of a head in all slots of a page (arXiv 2402.02750), so that it has
    as many as features. `parameters[..., 0, :]` are scales, the bits 14 to 7 of an f16; `parameters[..., 1, :]` are zeros,
    in [-128, 127] for 4 bits, in [0, 255] for 8. Of 4-bit elements each 16 bytes of a row hold 32: byte i has element i
    in its low half and element i + 16 in its high half. With `low` and `high` the least and the largest number of the
    group,

    - 4 bits: `least = max((high - low) / 15, max(|low|, |high|) / 127)`;
    - 8 bits: `low` and `high` are first brought to 0 where they are beyond it, `least = (high - low) / 255`;
    - the scale is the f16 nearest to `least`, rounded up to its bits above the 7th, at least 2^-17;
      `zero = round(-low / scale)`, `q = round(x / scale) + zero`, both to even and clamped to their ranges, in f32.

    Keys are quantized when their page is full. Until then they lie in the tail, which has the last page of each
    sequence.

    Quantized keys may be `unrotated`: pages hold them as they were before their rotary embedding, which turns features
    by the position of a key, so that those of a page differ less before it (KVQuant: arXiv 2401.18079, section 3.2). Ops
    have the `frequencies` that they are turned by. Rows and tail are as they come.
  }];
  let parameters = (ins EnumParameter<Nn_CacheKind>:$kind,
                        OptionalParameter<"::mlir::Type", "null while the elements are undecided">:$decidedElement,
                        "int64_t":$page, "bool":$transposed, "bool":$unrotated);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Type of the elements. While they are undecided it is f32.
    ::mlir::Type getElement() const;
    /// True while the size of a page and its order are undecided.
    bool isOpen() const { return getPage() == 0; }
    /// True if elements are quantized values with a scale and a zero for each group.
    bool isQuantized() const;
    /// True if rows of pages that are not full lie in a tensor of their own.
    bool hasTail() const { return isQuantized() && getKind() == CacheKind::Keys; }
    /// Returns the bits of an element.
    int64_t getBits() const { return getElement().getIntOrFloatBitWidth(); }
    /// Returns the number of tensors, and of those with a unit for each page, which come first.
    unsigned getTensorCount() const { return getPagedCount() + hasTail(); }
    unsigned getPagedCount() const { return isQuantized() ? 2 : 1; }
    /// Dimensions of the tensor of elements and of the tail.
    unsigned getSlotDimension() const { return getTransposed() ? 3 : 2; }
    unsigned getFeatureDimension() const { return getTransposed() ? 2 : 3; }
    /// Returns the tensors for `heads` heads of `features` features.
    ::llvm::SmallVector<CacheTensor> getTensors(int64_t heads, int64_t features) const;
    /// Returns the features of a head in a cache whose tensor of elements has this type, of rank 4.
    int64_t getFeatures(::mlir::RankedTensorType elements) const;
    CacheFormatAttr withElement(::mlir::Type element) const;
    CacheFormatAttr withLayout(int64_t page, bool transposed) const;
    CacheFormatAttr withoutRotation() const;
  }];
}

def Nn_GgmlTypeAttr : AttrDef<Nn_Dialect, "GgmlType", [DeclareAttrInterfaceMethods<BlockFormatAttrInterface>]> {
  let mnemonic = "ggml_type";
  let summary = "What the blocks of a tensor of a GGUF file mean";
  let description = [{
    `#nn.ggml_type<q4_k>`: one of the types of ggml that this compiler decodes, in lower case. `lib/Formats/GgmlTypes.h` is
    the table of them: elements and bytes of a block.
  }];
  let parameters = (ins StringRefParameter<"the type's name in lower case">:$keyword);
  let assemblyFormat = "`<` custom<GgmlKeyword>($keyword) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    const ::intarsia::GgmlType &getType() const;
    /// The format along the last of two dimensions whose quantized values and scales blocks of this type hold; null
    /// for types that have none: those with minima or with scales of scales.
    BlockFormatAttr getBlockFormat() const;
  }];
}

#endif
