//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_OPS
#define INTARSIA_NN_OPS

// The ops of the dialect: a line for each folder of Ops.
include "dialects/Nn/Ops/Attention/Attention.td"
include "dialects/Nn/Ops/Caches/Caches.td"
include "dialects/Nn/Ops/Candidates/Candidates.td"
include "dialects/Nn/Ops/Constants/Constants.td"
include "dialects/Nn/Ops/Conv/Conv.td"
include "dialects/Nn/Ops/Cumulate/Cumulate.td"
include "dialects/Nn/Ops/Elementwise/Elementwise.td"
include "dialects/Nn/Ops/Embedding/Embedding.td"
include "dialects/Nn/Ops/Experts/Experts.td"
include "dialects/Nn/Ops/Fft/Fft.td"
include "dialects/Nn/Ops/GridSample/GridSample.td"
include "dialects/Nn/Ops/Group/Group.td"
include "dialects/Nn/Ops/Linear/Linear.td"
include "dialects/Nn/Ops/Matmul/Matmul.td"
include "dialects/Nn/Ops/Nms/Nms.td"
include "dialects/Nn/Ops/Nonzero/Nonzero.td"
include "dialects/Nn/Ops/Norms/Norms.td"
include "dialects/Nn/Ops/Pad/Pad.td"
include "dialects/Nn/Ops/Pool/Pool.td"
include "dialects/Nn/Ops/Quantize/Quantize.td"
include "dialects/Nn/Ops/Recurrent/Recurrent.td"
include "dialects/Nn/Ops/Resize/Resize.td"
include "dialects/Nn/Ops/RoiAlign/RoiAlign.td"
include "dialects/Nn/Ops/Rope/Rope.td"
include "dialects/Nn/Ops/Scatter/Scatter.td"
include "dialects/Nn/Ops/Softmax/Softmax.td"
include "dialects/Nn/Ops/Sort/Sort.td"
include "dialects/Nn/Ops/Weights/Weights.td"

#endif
