//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_NMS
#define INTARSIA_NN_NMS

include "dialects/Nn/NnOp.td"

def Nn_ThresholdTensor : RankedTensorOf<[F32]>;

def Nn_NmsOp : Nn_TensorOp<"nms", ""> {
  let summary = "The boxes of the best scores that overlap none of a better one";
  let description = [{
    Boxes `[batch, boxes, 4]`, scores `[batch, classes, boxes]`; `limit`, `iou_threshold` and `score_threshold` are
    scalars. For each batch and class, boxes are taken in the order of their scores, the best one first and of equal
    scores the one of the lower number first, until there are `limit` of them. A box is not taken if its score is NaN
    or not above `score_threshold`, or if it overlaps one that was taken by more than `iou_threshold`: the area in both
    over the area in either. A box is `(y1, x1, y2, x2)`, two opposite corners in any order, or with `centered`
    `(x, y, width, height)` around its middle. One without an area, of a negative width or height, or with NaN overlaps
    none. Areas are computed in f32.

    Row `i` of `selected` `[batch * classes * boxes, 3]` is (batch, class, number of the box), by batches, then classes,
    then in the order in which boxes were taken; `count` says how many rows there are, and those behind are -1. Tensors
    are cut to the count as that of `nn.nonzero`. It is `NonMaxSuppression` of ONNX (version 11).

    Rejected: other ranks, a last dimension of boxes other than 4, numbers of batches and of boxes that differ.

    ```mlir
    %selected, %count = nn.nms %boxes, %scores, %limit, %iou, %least : (tensor<1x?x4xf32>, tensor<1x80x?xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$boxes, Nn_FloatTensor:$scores, RankedTensorOf<[I64]>:$limit,
                   Nn_ThresholdTensor:$iou_threshold, Optional<Nn_ThresholdTensor>:$score_threshold,
                   UnitAttr:$centered);
  let results = (outs RankedTensorOf<[I64]>:$selected, RankedTensorOf<[I64]>:$count);
  let assemblyFormat = [{
    $boxes `,` $scores `,` $limit `,` $iou_threshold (`,` $score_threshold^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif
