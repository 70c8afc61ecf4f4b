//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CONV
#define INTARSIA_NN_CONV

include "dialects/Nn/NnOp.td"

def Nn_ConvOp : Nn_TensorOp<"conv", "Conv", [
    DeclareOpInterfaceMethods<ContractionOpInterface, ["getLeftRead"]>,
    DeclareOpInterfaceMethods<StoredOperandOpInterface>, DeclareOpInterfaceMethods<RowInputOpInterface>]> {
  let summary = "Convolution over one to three spatial dimensions, channels last";
  let description = [{
    Input `[batch, spatial…, in]`, weight `[out, window… * in / groups]`, bias `[out]`, result `[batch, spatial…, out]`
    of the input's element type. A row of the weight is a window in row-major order, each position with its channels.
    With `n` the batch, `o` a position of the result, `k` one of the window, and `g` the group of channel `c`,
    `g = c / (out / groups)`:

    `result[n, o, c] = sum over k, i of input[n, o * stride + k * dilation - pad_low, g * in / groups + i] *
    weight[c, k * in / groups + i] (+ bias[c])`

    where positions outside of the input are zero. A spatial size of the result is
    `(input + pad_low + pad_high - ((window - 1) * dilation + 1)) / stride + 1`, rounded down. It is `aten.convolution`
    of PyTorch and `Conv` of ONNX (version 22). Accumulates in f32 at least. Weight and bias have the input's element
    type or a narrower one. Where input and weight are dequantized (`nn.dequantize`) devices multiply the quantized
    values; the channels of a position are then a row that the input has scales for.

    A `transposed` convolution spreads what the other one gathers: with `i` a position of the input, all products
    `input[n, i, …] * weight[c, …]` are added to `result[n, i * stride + k * dilation - pad_low, c]`, where that is
    inside. A size of the result is `(input - 1) * stride - pad_low - pad_high + (window - 1) * dilation + 1 +
    output_pad`. It is `ConvTranspose` of ONNX (version 22).

    Rejected: a rank below 3 or above 5, attributes with another number of entries than spatial dimensions, strides,
    dilations and windows below 1, negative pads, groups that do not divide both numbers of channels, a result with a
    size below 1, `output_pads` that are not below the stride or dilation, or of a convolution that is not transposed.

    ```mlir
    %y = nn.conv %x, %w, %b {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>,
                             pads_high = array<i64: 1, 1>}
        : (tensor<?x224x224x16xf32>, tensor<32x144xf32>, tensor<32xf32>) -> tensor<?x112x112x32xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$bias,
                   DenseI64ArrayAttr:$window, OptionalAttr<DenseI64ArrayAttr>:$strides,
                   OptionalAttr<DenseI64ArrayAttr>:$dilations, OptionalAttr<DenseI64ArrayAttr>:$pads_low,
                   OptionalAttr<DenseI64ArrayAttr>:$pads_high, DefaultValuedAttr<I64Attr, "1">:$groups,
                   UnitAttr:$transposed, OptionalAttr<DenseI64ArrayAttr>:$output_pads,
                   OptionalAttr<TypeAttr>:$precision);
  let hasCanonicalizer = 1;
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
    /// Returns the window, stride, dilation and pads of one spatial dimension.
    ::intarsia::nn::WindowDimension getWindowDimension(unsigned dimension);
    /// Returns the size of the result where the input has this one.
    template <typename Size> Size resultSize(unsigned dimension, Size size) {
      ::intarsia::nn::WindowDimension window = getWindowDimension(dimension);
      return getTransposed() ? window.madeBy(size) : window.windowsOf(size);
    }
    unsigned getSpatialRank() { return getWindow().size(); }
    int64_t getInputChannels() { return getInput().getType().getShape().back(); }
    int64_t getOutputChannels() { return getWeight().getType().getDimSize(0); }
  }];
}

#endif
