//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_POOL
#define INTARSIA_NN_POOL

include "dialects/Nn/NnOp.td"

def Nn_PoolOp : Nn_TensorOp<"pool", "Generic"> {
  let summary = "Largest element, mean or norm of each window of an image, channels last";
  let description = [{
    Input `[batch, spatial…, channels]`, result `[batch, spatial…, channels]` of its element type, over one to three
    spatial dimensions. With `o` a position of the result and `k` one of the window, each channel for itself combines
    `input[n, o * stride + k * dilation - pad_low, c]` over the positions inside of the input:

    | kind | result |
    |---|---|
    | `max` | the largest, NaN if one is NaN |
    | `average` | the sum divided by the number of positions inside; with `count_include_pad` by those in the pads too |
    | `lp` | `(sum of abs(x) ^ p) ^ (1 / p)` |

    A spatial size of the result is `(input + pad_low + pad_high + beyond_high - ((window - 1) * dilation + 1)) / stride +
    1`, rounded down. Windows may reach `beyond_high` positions behind the pads, which nothing counts: what rounding the
    number of windows up needs (`ceil_mode`). With `with_indices` there is a second result, i64: where the largest element
    is, as a row-major index of the spatial dimensions of the input; the first of equal ones, a NaN before all others.
    It is `max_pool`, `avg_pool` and `lp_pool` of PyTorch, `MaxPool`, `AveragePool`, `LpPool` of ONNX (version 22).

    Rejected: a rank below 3 or above 5, attributes with another number of entries than spatial dimensions, strides,
    dilations and windows below 1, negative pads, pads as large as a window's extent, a result with a size below 1,
    indices of other kinds than `max`.

    ```mlir
    %y = nn.pool <max>, %x {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>,
                            pads_high = array<i64: 1, 1>} : (tensor<?x112x112x64xf32>) -> tensor<?x56x56x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_PoolKindAttr:$kind, DenseI64ArrayAttr:$window,
                   OptionalAttr<DenseI64ArrayAttr>:$strides, OptionalAttr<DenseI64ArrayAttr>:$dilations,
                   OptionalAttr<DenseI64ArrayAttr>:$pads_low, OptionalAttr<DenseI64ArrayAttr>:$pads_high,
                   OptionalAttr<DenseI64ArrayAttr>:$beyond_high, UnitAttr:$count_include_pad,
                   DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "2">:$p, UnitAttr:$with_indices);
  let results = (outs Nn_FloatTensor:$result, Optional<RankedTensorOf<[I64]>>:$indices);
  let assemblyFormat = "$kind `,` $input attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
    /// Returns the window, stride, dilation and pads of one spatial dimension.
    ::intarsia::nn::WindowDimension getWindowDimension(unsigned dimension);
    unsigned getSpatialRank() { return getWindow().size(); }
  }];
}

#endif
