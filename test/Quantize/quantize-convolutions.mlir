// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int8 activations=8-wide" | FileCheck %s
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int8 activations=8" | FileCheck %s --check-prefix=BLOCKS
// RUN: intarsia-opt %s --intarsia-quantize="format=int8 parts=linears activations=8-static static-inputs=3F800000-40000000-3F800000-40000000/w" | FileCheck %s --check-prefix=KNOWN

nn.archive @weights {file = "w.safetensors"}

// The channels of a position are quantized as the features of a token are, along the last dimension; the weight has a
// scale for each output channel, also where importers have transposed it. Blocks of a weight would not be those of
// positions: then convolutions stay in floats.
// CHECK-LABEL: func.func @windows
// BLOCKS-LABEL: func.func @windows
// BLOCKS-NOT:   nn.quantize
// KNOWN-LABEL: func.func @windows
// KNOWN-DAG:     %[[R:.*]] = arith.constant dense<[1.000000e+00, 5.000000e-01, 1.000000e+00, 5.000000e-01]> : tensor<4xf32>
// KNOWN-DAG:     %[[F:.*]] = arith.constant dense<[1.000000e+00, 2.000000e+00, 1.000000e+00, 2.000000e+00, 1.000000e+00, 2.000000e+00, 1.000000e+00, 2.000000e+00]> : tensor<8xf32>
func.func @windows(%x: tensor<?x6x6x4xf32>) -> tensor<?x6x5x8xf32> {
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = nn.quantize %arg0 {format = #nn.block_format<i8, f32, 256, axis = 3>}
  // CHECK: %[[X:.*]] = nn.dequantize %[[XQ]], %[[XS]]
  // CHECK: %[[M:.*]] = tensor.collapse_shape
  // CHECK: %[[Q:.*]], %[[S:.*]] = nn.quantize %[[M]] {format = #nn.block_format<i8, f16, 0, axis = 1>}
  // CHECK: %[[W:.*]] = nn.dequantize %[[Q]], %[[S]]
  // CHECK: nn.conv %[[X]], %[[W]]
  // KNOWN: nn.quantize %arg0 factors %[[R]] {format = #nn.block_format<i8, f32, 0, axis = 3>, nn.replaces_input, unit_scale}
  // KNOWN: nn.quantize %{{.*}} factors %[[F]] {format = #nn.block_format<i8, f32, 0, axis = 1>}
  %w = nn.weight @weights["w"] : tensor<8x4x1x2xf32>
  %e = tensor.empty() : tensor<8x1x2x4xf32>
  %t = linalg.transpose ins(%w : tensor<8x4x1x2xf32>) outs(%e : tensor<8x1x2x4xf32>) permutation = [0, 2, 3, 1]
  %m = tensor.collapse_shape %t [[0], [1, 2, 3]] : tensor<8x1x2x4xf32> into tensor<8x8xf32>
  %y = nn.conv %x, %m {window = array<i64: 1, 2>} : (tensor<?x6x6x4xf32>, tensor<8x8xf32>) -> tensor<?x6x5x8xf32>
  return %y : tensor<?x6x5x8xf32>
}

// Those of groups, transposed ones and those of pictures stay in floats.
// CHECK-LABEL: func.func @others
// CHECK-NOT:     nn.quantize
// KNOWN-LABEL: func.func @others
// KNOWN-NOT:     nn.quantize
func.func @others(%x: tensor<1x6x8xf32>, %p: tensor<1x6x3xf32>) -> (tensor<1x6x8xf32>, tensor<1x7x8xf32>, tensor<1x6x8xf32>) {
  %g = nn.weight @weights["g"] : tensor<8x4xf32>
  %a = nn.conv %x, %g {window = array<i64: 1>, groups = 2} : (tensor<1x6x8xf32>, tensor<8x4xf32>) -> tensor<1x6x8xf32>
  %t = nn.weight @weights["t"] : tensor<8x16xf32>
  %b = nn.conv %x, %t {window = array<i64: 2>, transposed} : (tensor<1x6x8xf32>, tensor<8x16xf32>) -> tensor<1x7x8xf32>
  %c = nn.weight @weights["c"] : tensor<8x3xf32>
  %d = nn.conv %p, %c {window = array<i64: 1>} : (tensor<1x6x3xf32>, tensor<8x3xf32>) -> tensor<1x6x8xf32>
  return %a, %b, %d : tensor<1x6x8xf32>, tensor<1x7x8xf32>, tensor<1x6x8xf32>
}
