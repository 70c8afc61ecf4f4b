//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_RESIZE
#define INTARSIA_NN_RESIZE

include "dialects/Nn/NnOp.td"

def Nn_ResizeOp : Nn_TensorOp<"resize", "Generic"> {
  let summary = "A tensor resampled along some of its axes";
  let description = [{
    Each of `axes` has another size in the result: that of `sizes`, or that of `like`, a tensor with a dimension for each
    of `axes`, whose elements are not read. Position `o` of the result along an axis reads the input at the coordinate

    `x = (o + shift) * scale + offset`

    rounded once to f32, with the entries of `shifts`, `scales` and `offsets` for the axis: a scale is a step of the input for one of
    the result. Without `scales` it is `input size / result size`, and with `corners` `(input size - 1) / (result size -
    1)`, or 0 where the result has one position; without `shifts` and `offsets` they are 0. Importers write what their
    formats know by it: `half_pixel` is a shift of 0.5 and an offset of -0.5, `asymmetric` has neither, `align_corners` is
    `corners`, and `tf_crop_and_resize` has a scale and an offset.

    | kind | result along an axis |
    |---|---|
    | `nearest` | `input[round(x)]`, by `rounding`: `floor`, `ceil`, to nearest with halves `half_down` or `half_up` |
    | `linear` | the sum of `input[j] * w(j - x)` with `w(d) = max(1 - abs(d), 0)` |
    | `cubic` | the same with the kernel of Keys (1981, DOI 10.1109/TASSP.1981.1163711) whose parameter is `coefficient` |

    Several axes are resampled one after another. A position before the first element or behind the last reads that
    one. With `exclude_outside` such positions have no weight, and weights are divided by their sum. With `antialias` the
    kernel is as wide as a step where that is more than one element: `w(d / max(scale, 1))`, divided by the sum over all
    `j`. With `outside` the result is this number where the coordinate of an axis is below 0 or above `input size - 1`.
    Weights and sums are computed in f32, sums rounded once. It is `Resize` of ONNX (version 19), `interpolate` of
    PyTorch (antialiased as there with `exclude_outside`).

    Rejected: axes that are outside or equal; both or neither of `sizes` and `like`; an input of size 0 along an axis
    whose result has elements; scales that are not positive and finite; elements that are no floats for other kinds than
    `nearest`; `antialias`, `exclude_outside` and `outside` of `nearest`; `antialias` without `scales` along an axis of a
    dynamic size.

    ```mlir
    %y = nn.resize <linear>, %x {axes = array<i64: 1, 2>, sizes = array<i64: 64, 64>, shifts = array<f32: 0.5, 0.5>,
                                 offsets = array<f32: -0.5, -0.5>} : (tensor<?x32x32x8xf32>) -> tensor<?x64x64x8xf32>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32, BF16, F16, AnySignlessInteger]>:$input, Optional<Nn_AnyTensor>:$like,
                   Nn_InterpolationAttr:$kind, DenseI64ArrayAttr:$axes, OptionalAttr<DenseI64ArrayAttr>:$sizes,
                   OptionalAttr<DenseF32ArrayAttr>:$scales, OptionalAttr<DenseF32ArrayAttr>:$shifts,
                   OptionalAttr<DenseF32ArrayAttr>:$offsets, UnitAttr:$corners,
                   DefaultValuedAttr<Nn_NearestRoundingAttr, "::intarsia::nn::NearestRounding::Floor">:$rounding,
                   DefaultValuedAttr<F32Attr, "-0.75f">:$coefficient, UnitAttr:$exclude_outside, UnitAttr:$antialias,
                   OptionalAttr<F32Attr>:$outside);
  let results = (outs RankedTensorOf<[F32, BF16, F16, AnySignlessInteger]>:$result);
  let hasFolder = 1;
  let assemblyFormat = "$kind `,` $input (`like` $like^)? attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    /// The step of the input for one of the result along an axis, by its number among `axes`; none if the sizes that it
    /// follows from are dynamic.
    std::optional<float> getStep(unsigned number);
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
  }];
}

#endif
