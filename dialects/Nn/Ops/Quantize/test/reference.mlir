// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// The values of the format are a table; rounding is to even.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<?x40xf32>) -> tensor<?x40xf32> {
  // CHECK: tensor.empty(%{{.*}}) : tensor<?x2xi8>
  // CHECK: math.roundeven
  // CHECK: arith.constant dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00, {{.*}}]> : tensor<16xf32>
  // CHECK-NOT: = nn.
  %c, %s = nn.quantize %x {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xf32>) -> (tensor<?x40xi4>, tensor<?x2xi8>)
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xi4>, tensor<?x2xi8>) -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}

// -----

// A code, the scale and the minimum of 32 elements come from their bytes.
// CHECK-LABEL: func.func @ggml_blocks
// CHECK-SAME: %[[B:.*]]: tensor<3x288xi8>
func.func @ggml_blocks(%b: tensor<3x288xi8>) -> tensor<3x512xf32> {
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x512xf32>)
  // CHECK: tensor.extract %[[B]]
  // CHECK: arith.bitcast %{{.*}} : i16 to f16
  // CHECK: arith.mulf
  // CHECK: arith.subf
  // CHECK-NOT: = nn.
  %0 = nn.dequantize %b {format = #nn.ggml_type<q4_k>} : (tensor<3x288xi8>) -> tensor<3x512xf32>
  return %0 : tensor<3x512xf32>
}

// -----

// The levels of a format are a table. The size of a row follows from its bytes.
// CHECK-LABEL: func.func @dynamic_ggml_blocks
func.func @dynamic_ggml_blocks(%b: tensor<?xi8>) -> tensor<?xf32> {
  // CHECK: arith.constant dense<[-1.270000e+02, -1.040000e+02, {{.*}}, 1.130000e+02]> : tensor<16xf32>
  // CHECK: %[[BLOCKS:.*]] = arith.divui %{{.*}}, %{{.*}} : index
  // CHECK: %[[ELEMENTS:.*]] = arith.muli %[[BLOCKS]], %{{.*}} : index
  // CHECK: tensor.empty(%[[ELEMENTS]]) : tensor<?xf32>
  // CHECK-NOT: = nn.
  %0 = nn.dequantize %b {format = #nn.ggml_type<iq4_nl>} : (tensor<?xi8>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
