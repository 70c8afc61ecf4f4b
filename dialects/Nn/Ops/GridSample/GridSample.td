//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_GRID_SAMPLE
#define INTARSIA_NN_GRID_SAMPLE

include "dialects/Nn/NnOp.td"

def Nn_GridSampleOp : Nn_TensorOp<"grid_sample", "Generic"> {
  let summary = "An image sampled at coordinates from a tensor, channels last";
  let description = [{
    Input `[batch, spatial…, channels]` with one to three spatial dimensions, grid `[batch, result…, coordinates]` with a
    coordinate for each spatial dimension, the last dimension's first (x, y, z); result `[batch, result…, channels]`. A
    coordinate `g` is from -1 to 1 and means the position `((g + 1) * size - 1) / 2` of the input, or with `corners`
    `(g + 1) / 2 * (size - 1)`, in f32. The result is the element there (`nearest`, halves to the even position), or made
    of 2 (`linear`) or 4 (`cubic`, the kernel of Keys with -0.75) along each dimension. What lies outside of the image is
    0 (`zeros`), its nearest element (`border`), or the image turned over at its borders, or with `corners` at its first
    and last elements (`reflection`); of `nearest` and `linear` the position is clipped or turned over before, of
    `cubic` that of each element is. A coordinate that is NaN lies far before the image.
    It is `GridSample` of ONNX (version 22), `grid_sample` of PyTorch.

    Rejected: other ranks, sizes of batches that differ, a spatial size of 0, a dynamic number of coordinates.

    ```mlir
    %y = nn.grid_sample <linear>, <zeros>, %x, %grid : (tensor<?x32x32x8xf32>, tensor<?x16x16x2xf32>) -> tensor<?x16x16x8xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$grid, Nn_InterpolationAttr:$kind,
                   Nn_OutsideKindAttr:$outside, UnitAttr:$corners);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $kind `,` $outside `,` $input `,` $grid attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
  }];
}

#endif
