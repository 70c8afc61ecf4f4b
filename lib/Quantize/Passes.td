//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_PASSES
#define INTARSIA_QUANTIZE_PASSES

include "mlir/Pass/PassBase.td"

def QuantizeInputsOfBlocks : Pass<"quantize-inputs-of-blocks", "::mlir::func::FuncOp"> {
  let summary = "Quantizes what is multiplied by weights that are stored in blocks";
  let description = [{
    The input of a linear whose weight an archive holds quantized (`nn.dequantize` of weights) in a format whose values
    are integers (q4_0, q4_1, q8_0, q4_k, q5_k, q6_k, mxfp4) is quantized to 8 bits, by blocks as long as the weight's,
    as `quantize-round-to-nearest` does: the weight stays at its bits, and integers are multiplied. So are the inputs of
    the two linears of experts, by blocks of 32. With `activations=8-wide` the input of a linear whose weight has
    integers of 8 bits and one scale for each output feature has a scale for each 256 features, with `8-token` one for
    each row.
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"8\"", "Inputs of linears: 8 (by blocks) 8-wide or 8-token (a scale for each 256 features or each row, where the weight has one for each output feature)">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect"];
}

def QuantizeKvCache : Pass<"quantize-kv-cache", "::mlir::ModuleOp"> {
  let summary = "Gives key/value caches the elements that they are kept in";
  let description = [{
    Importers leave the elements of caches undecided, `#nn.cache_format<keys>`. Each cache gets the format that `formats`
    asks for: `f32`, `f16`, `bf16`, `fp8` (E4M3), `int8` or `int4`, as one word for all of them or behind a glob over the
    names of states, `cache.[2-3]=int4`, `cache.0.keys=f16`. A glob may match the name of a cache, `cache.0.keys`, or
    that name without its last part, `cache.0`; of several entries that match a cache the last one holds. A cache that no
    entry matches becomes f16 if its elements are undecided, and else stays as it is: the pass changes nothing in what it
    has made. An entry that matches nothing is an error, which shows the nearest names.

    A cache of quantized values has tensors besides its elements, which become arguments and results of the function:
    parameters, and for keys the tail, which is updated after everything that reads it.

    ```mlir
    func.func @step(…, %k: tensor<?x2x?x64xf32> {nn.name = "cache.0.keys", nn.state}) {
      %k1 = nn.cache_append(%k) <keys>, %rows, %positions, %sequences, %pages : …
    // --quantize-kv-cache=formats=int8
    func.func @step(…, %k: tensor<?x2x?x64xi8> {nn.name = "cache.0.keys", nn.state},
                    %p: tensor<?x2x2x64xi8> {nn.name = "cache.0.key_parameters", nn.state},
                    %t: tensor<?x2x?x64xf16> {nn.name = "cache.0.key_tail", nn.state}) {
      %k1, %p1 = nn.cache_append(%k, %p, %t) <keys, ui8>, %rows, %positions, %sequences, %pages : …
    ```
  }];
  let options = [
    ListOption<"formats", "formats", "std::string", "Formats of caches: int8 for all, cache.0=f16 for some">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def QuantizeRoundToNearest : Pass<"quantize-round-to-nearest", "::mlir::func::FuncOp"> {
  let summary = "Quantizes weights to a block format";
  let description = [{
    A stored matrix `w` that a linear reads becomes `nn.dequantize(nn.quantize(w))`: what is stored later are the
    quantized values, and the IR says what they mean. With 8-bit activations the linear's input is quantized too, along
    its features as it is computed, by blocks of 32 where the weight has 8 bits and of 256 where it has fewer
    (`nn.dequantize(nn.quantize(x))` with values of i8 and scales of f32), so that integers are multiplied. With
    activations in `8-wide` or `8-token` linears whose weights were to be `int8` get one scale for each output feature
    (`int8-channel`) and inputs with one scale for each 256 features or each row (token), so that integers are added up
    over many features before they are scaled. Inputs of
    weights whose values are no integers (`fp8`) stay. With activations in `fp8` the inputs of linears with such weights
    become E4M3, with a scale for each row (token). With activations in `mxfp4` or `nvfp4` those of linears with such
    weights become E2M1, with a scale for each 32 or 16 features; `nvfp4` has one more for each row, where weights have
    one for the matrix. Inputs of other weights and of experts stay. The pass reads no weights: the packer quantizes them.

    `parts` says which matrices: `linears`, `experts`, `lm_head` (the linear that makes the result named "logits"),
    `embedding` (tables). A part may name a format of its own, `lm_head=int4`; without one it has `format`, but for the
    head and the embedding, which have `int6` where `format` has 4 bits. A matrix that two parts read (a tied embedding)
    is quantized for both if one of them asks for it, so that it is stored once: in the format that is named for one of
    them (an error if two are), or else in the one with more bits.

    `tensors` names formats of single matrices of linears and embeddings, by the keys of their archives: they hold
    against `format`, which may then be `none`, and `parts`.

    Matrices of experts are quantized where rows are whole, each stored tensor apart, and their activations before both
    linears; what is stored in MXFP4 stays so. A linear that a router reads is not quantized.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"int4\"", "A format of weights that `intarsia-compile --quantize` knows: int4, int4-g64, int4-channel, nvfp4, …">,
    Option<"activations", "activations", "std::string", "\"8\"", "Inputs of linears: 8 (integers of 8 bits), 8-wide or 8-token (with a scale for each 256 features or each row), fp8, mxfp4, nvfp4 (where weights have that format), or 16 (as they are)">,
    ListOption<"parts", "parts", "std::string", "What is quantized: linears, experts, lm_head, embedding (default: all), each alone or with a format: lm_head=int8">,
    ListOption<"tensors", "tensors", "std::string", "Formats of single tensors, KEY=FORMAT, against format and parts; none leaves one as it is">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def QuantizeNarrowStored : Pass<"quantize-narrow-stored", "::mlir::ModuleOp"> {
  let summary = "Keeps matrices of an archive in formats of fewer bits that hold their values";
  let description = [{
    Other tools know no integers of 5 and 6 bits, and no ternary ones. `intarsia quantize` stores such a matrix as integers
    of 8 bits in groups, ternary values as integers of 4, and names its format in a file beside (`intarsia-precision.json`). `formats` says so of a matrix: what `nn.dequantize`
    reads under the key of its values becomes `kept` in that format, whose groups are those of the archive. The packer
    refuses a value that the format does not hold.
  }];
  let options = [
    ListOption<"formats", "formats", "std::string", "Formats by the keys of matrices, without the suffix _packed: KEY=FORMAT">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect"];
}

def QuantizeMatmulPrecision : Pass<"quantize-matmul-precision", "::mlir::func::FuncOp"> {
  let summary = "Says what matrices may be multiplied in";
  let description = [{
    Devices with matrix instructions multiply floats of 16 bits many times faster than f32. Every `nn.linear` and
    `nn.experts` without a `precision` gets one: the given one, or with `stored` that of its weights, if these have 16
    bits or are quantized (then `f16`). Those of weights in f32, and those whose inputs are quantized, stay without.

    So does every `nn.matmul`, `nn.attention` and `nn.cached_attention`, which have no weights. With `stored` they take
    the precision of the linears and experts around them: all that compute what they multiply, and all that read their
    results, through any other ops, must have one and the same. A linear whose input is quantized counts as `f16`, which
    has more bits. An op that multiplies an argument of the function, or whose result is one of the function's, stays as
    it is.

    With `attention=8` every `nn.attention` between linears whose inputs are quantized to integers of 8 bits, in the same
    sense, has the precision `i8`, whatever `precision` says.
  }];
  let options = [
    Option<"precision", "precision", "std::string", "\"stored\"", "f32, tf32, bf16, f16, or stored">,
    Option<"attention", "attention", "std::string", "\"16\"", "8, or 16: as `precision` says">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect"];
}

def QuantizeMixedInputs : Pass<"quantize-mixed-inputs", "::mlir::func::FuncOp"> {
  let summary = "Quantizes inputs of linears to blocks of 8 and of 4 bits";
  let description = [{
    `inputs` says of an input, by the keys of the matrices that it is multiplied by, in which order its features lie and
    how many of its blocks of 128 have 8 bits; the others have 4 (FMPQ: COMET, arXiv 2410.12168):
    `1/2-0-1/q_proj.weight+k_proj.weight` has one block of 8 bits, and the features 2, 0, 1. Features of the weights, which
    must be quantized to integers by an earlier pass and not in the archive, are quantized in the same order, so that
    blocks of weights are those of the permuted features. The input replaces what an earlier pass has quantized of it.

    ```mlir
    %p = arith.constant dense<[2, 0, 1]> : tensor<3xi32>
    %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1} : …
    %v, %t = nn.quantize %w channels %p {format = #nn.block_format<i4, f16, 32, axis = 1>} : …
    ```
  }];
  let options = [
    ListOption<"inputs", "inputs", "std::string", "WIDE/CHANNEL-CHANNEL-…/KEY+KEY: blocks of 8 bits, the order of features, keys of weights">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def QuantizeStaticInputs : Pass<"quantize-static-inputs", "::mlir::func::FuncOp"> {
  let summary = "Quantizes inputs of linears to integers of 8 bits with scales that a text has shown";
  let description = [{
    `inputs` says of an input, by the keys of the matrices that it is multiplied by, the factor of each of its features,
    as the bits of an f32 in hexadecimal: `3F800000-40000000/q_proj.weight+k_proj.weight` has the factors 1 and 2. An
    input is divided by its factors and rounded to -128 … 127, and weights, which must be quantized to `int8-channel` by
    an earlier pass and not in the archive, are multiplied by them before they are quantized (SmoothQuant: arXiv
    2211.10438, equation 3). The input replaces what an earlier pass has quantized of it.

    ```mlir
    %r = arith.constant dense<[1.0, 0.5]> : tensor<2xf32>
    %f = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %q, %s = nn.quantize %x factors %r {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : …
    %v, %t = nn.quantize %w factors %f {format = #nn.block_format<i8, f32, 0, axis = 1>} : …
    ```
  }];
  let options = [
    ListOption<"inputs", "inputs", "std::string", "BITS-BITS-…/KEY+KEY: factors of features, keys of weights">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::arith::ArithDialect"];
}

def QuantizeSegment : Pass<"quantize-segment", "::mlir::ModuleOp"> {
  let summary = "Leaves a part of a model that calibration runs on its own";
  let description = [{
    A function is cut where the layers begin that the names of its ops say (`model.layers.3`). Segment 0 is what comes
    before the second layer, and so on; the last one is what comes behind the last layer. The function becomes one of
    these segments:

    - Values that it takes from earlier ones are arguments `value.<number>`, those that later ones take from it results of
      the same names. Constants and sizes are made again.
    - Matrices of linears are those that the file `weights` holds, in f32, under the keys that they have in the model; so
      a segment can be run with quantized weights too.
    - What linears multiply is a result `input.<name>`, with the name of the first linear that does.
    - States stay states.
    - With `arguments`, weights become arguments `weight.<key>`, in f32 if linears multiply by them, and results of the
      function that the segment computes are its results too, so that one program can try many weights. Weights whose
      keys are in `kept` stay weights, so that later passes can quantize these and no others.

    The function's metadata says how many `segments` there are.
  }];
  let options = [
    Option<"segment", "segment", "int64_t", "0", "The number of the segment">,
    Option<"weights", "weights", "std::string", "\"\"", "An archive with other matrices of linears, in f32">,
    Option<"arguments", "arguments", "bool", "false",
           "Weights are arguments, and results of the function that the segment computes are its results too">,
    ListOption<"kept", "kept", "std::string", "Keys of weights that do not become arguments">
  ];
  let dependentDialects = ["::intarsia::nn::NnDialect", "::mlir::func::FuncDialect"];
}

#endif
