//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_ROI_ALIGN
#define INTARSIA_NN_ROI_ALIGN

include "dialects/Nn/NnOp.td"

def Nn_RoiAlignOp : Nn_TensorOp<"roi_align", "Generic", [DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "Regions of images, resampled to one size, channels last";
  let description = [{
    Input `[batch, height, width, channels]`, boxes `[regions, 4]` as (x1, y1, x2, y2), indices `[regions]` of the images
    that they are in; result `[regions, sizes[0], sizes[1], channels]`. A region's corners are multiplied by
    `spatial_scale`, less half a pixel with `half_pixel`; without it a region is at least one pixel wide and high. It is
    divided into cells, and a cell has `samples` times `samples` points, each in the middle of its part. A point reads the
    image between its four nearest elements, and 0 where it lies more than one pixel outside. The result is the mean of
    a cell's points, or with `largest` the largest of the four weighted elements of all points. Positions are
    rounded to f32 once, weights are computed in f32.
    It is `RoiAlign` of ONNX (version 16), `roi_align` of torchvision; source: arXiv 1703.06870, section 3.

    Rejected: other ranks, a last dimension of boxes other than 4, numbers of regions that differ, `samples`
    below 1, sizes below 1, images without elements. A number of samples that depends on a region's size
    (`sampling_ratio` 0) is not supported.

    ```mlir
    %y = nn.roi_align %x, %boxes, %images {sizes = array<i64: 7, 7>, samples = 2, spatial_scale = 0.25 : f32, half_pixel} : (tensor<?x32x32x8xf32>, tensor<?x4xf32>, tensor<?xi64>) -> tensor<?x7x7x8xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$boxes, Nn_IntegerTensor:$images, DenseI64ArrayAttr:$sizes,
                   I64Attr:$samples, DefaultValuedAttr<F32Attr, "1.0f">:$spatial_scale, UnitAttr:$half_pixel,
                   UnitAttr:$largest);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $boxes `,` $images attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = rootDeclaration # [{
    /// A result may be declared with fewer or more static sizes than the operands imply.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared) {
      return ::intarsia::nn::areCompatible(inferred, declared);
    }
    ::intarsia::SizePairs getLeastSizes(::llvm::ArrayRef<::intarsia::Sizes> operandSizes);
  }];
}

#endif
