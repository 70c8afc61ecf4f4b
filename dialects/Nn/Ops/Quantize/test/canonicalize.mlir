// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// Bit patterns 0 … 15 of E2M1 with scales 2^0 and NaN, then NVFP4 with a tensor scale of 2.
// CHECK-LABEL: func.func @dequantize
func.func @dequantize() -> (tensor<2x16xf32>, tensor<16xf32>, tensor<2xf16>) {
  // CHECK-DAG: dense<{{\[\[}}0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00, -5.000000e-01, -1.000000e+00, -1.500000e+00, -2.000000e+00, -3.000000e+00, -4.000000e+00, -6.000000e+00], [0x7FC00000, 0x7FC00000,
  %c = arith.constant dense<[[0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1], [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]]> : tensor<2x16xi4>
  %s = arith.constant dense<[[127], [255]]> : tensor<2x1xi8>
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<2x16xi4>, tensor<2x1xi8>) -> tensor<2x16xf32>
  // CHECK-DAG: dense<3.000000e+00> : tensor<16xf32>
  %c1 = arith.constant dense<1> : tensor<16xi4>
  %s1 = arith.constant dense<0x44> : tensor<1xi8>
  %t1 = arith.constant dense<2.0> : tensor<f32>
  %1 = nn.dequantize %c1, %s1 tensor_scale %t1 {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<16xi4>, tensor<1xi8>, tensor<f32>) -> tensor<16xf32>
  // CHECK-DAG: dense<[2.000000e+00, -1.000000e+00]> : tensor<2xf16>
  %c2 = arith.constant dense<[15, 9]> : tensor<2xi4>
  %s2 = arith.constant dense<0.5> : tensor<1xf16>
  %z2 = arith.constant dense<11> : tensor<1xi4>
  %2 = nn.dequantize %c2, %s2 zero_points %z2 {format = #nn.block_format<u4, f16, 32, axis = 0>} : (tensor<2xi4>, tensor<1xf16>, tensor<1xi4>) -> tensor<2xf16>
  // CHECK-NOT: nn.dequantize
  return %0, %1, %2 : tensor<2x16xf32>, tensor<16xf32>, tensor<2xf16>
}

// A block of GGUF holds its scale, 0.5 in f16, before its integers.
// CHECK-LABEL: func.func @dequantize_blocks
func.func @dequantize_blocks() -> tensor<1x32xf32> {
  // CHECK: dense<{{\[\[}}1.000000e+00, -2.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00{{\]\]}}> : tensor<1x32xf32>
  %b = arith.constant dense<[[0, 56, 2, -4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]> : tensor<1x34xi8>
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<1x34xi8>) -> tensor<1x32xf32>
  // CHECK-NOT: nn.dequantize
  return %0 : tensor<1x32xf32>
}

// Integers with and without zero points (of i4 the largest is -8), MXFP4 (scale 2^(floor(log2 12) - 2) = 2, 12 / 2 = 6, 1.25 a tie to 1 and 5 one
// to 4, NaN and zero blocks), NF4 and NVFP4 (tensor scale 2688 / 2688, scale 448 = 0x7E).
// CHECK-LABEL: func.func @quantize
func.func @quantize() -> (tensor<4xi8>, tensor<1xf32>, tensor<4xi4>, tensor<1xf16>, tensor<1xi4>, tensor<3x4xi4>, tensor<3x1xi8>, tensor<4xi4>, tensor<1xf32>, tensor<2xi4>, tensor<1xi8>, tensor<f32>, tensor<4xi4>, tensor<1xf16>) {
  // CHECK-DAG: dense<[127, -64, 0, 2]> : tensor<4xi8>
  // CHECK-DAG: dense<2.000000e+00> : tensor<1xf32>
  %x = arith.constant dense<[254.0, -127.0, 0.5, 3.0]> : tensor<4xf32>
  %c0, %s0 = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 0>} : (tensor<4xf32>) -> (tensor<4xi8>, tensor<1xf32>)
  // CHECK-DAG: dense<[0, -1, 4, 4]> : tensor<4xi4>
  // CHECK-DAG: dense<5.000000e-01> : tensor<1xf16>
  // CHECK-DAG: dense<4> : tensor<1xi4>
  %y = arith.constant dense<[-2.0, 5.5, 0.0, 0.25]> : tensor<4xf32>
  %c1, %s1, %z1 = nn.quantize %y {format = #nn.block_format<u4, f16, 32, axis = 0>} : (tensor<4xf32>) -> (tensor<4xi4>, tensor<1xf16>, tensor<1xi4>)
  // CHECK-DAG: dense<{{\[\[}}7, -6, 6, -8], [0, 0, 0, 0], [0, 0, 0, 0]]> : tensor<3x4xi4>
  // CHECK-DAG: dense<{{\[\[}}-128], [-1], [0]]> : tensor<3x1xi8>
  %m = arith.constant dense<[[12.0, -2.5, 10.0, -0.0], [0x7FC00000, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0]]> : tensor<3x4xf32>
  %c2, %s2 = nn.quantize %m {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<3x4xf32>) -> (tensor<3x4xi4>, tensor<3x1xi8>)
  // CHECK-DAG: dense<[-1, 0, 7, -4]> : tensor<4xi4>
  %n = arith.constant dense<[4.0, -4.0, 0.0, 1.7]> : tensor<4xf32>
  %c3, %s3 = nn.quantize %n {format = #nn.block_format<nf4, f32, 64, axis = 0>} : (tensor<4xf32>) -> (tensor<4xi4>, tensor<1xf32>)
  // CHECK-DAG: dense<[7, -3]> : tensor<2xi4>
  // CHECK-DAG: dense<126> : tensor<1xi8>
  // CHECK-DAG: dense<1.000000e+00> : tensor<f32>
  %v = arith.constant dense<[2688.0, -1344.0]> : tensor<2xf32>
  %c4, %s4, %t4 = nn.quantize %v {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<2xf32>) -> (tensor<2xi4>, tensor<1xi8>, tensor<f32>)
  // CHECK-DAG: dense<[-8, 4, 0, -1]> : tensor<4xi4>
  // CHECK-DAG: dense<-1.000000e+00> : tensor<1xf16>
  %u = arith.constant dense<[8.0, -4.0, 0.25, 1.0]> : tensor<4xf32>
  %c5, %s5 = nn.quantize %u {format = #nn.block_format<i4, f16, 32, axis = 0>} : (tensor<4xf32>) -> (tensor<4xi4>, tensor<1xf16>)
  // CHECK-NOT: nn.quantize
  return %c0, %s0, %c1, %s1, %z1, %c2, %s2, %c3, %s3, %c4, %s4, %t4, %c5, %s5 : tensor<4xi8>, tensor<1xf32>, tensor<4xi4>, tensor<1xf16>, tensor<1xi4>, tensor<3x4xi4>, tensor<3x1xi8>, tensor<4xi4>, tensor<1xf32>, tensor<2xi4>, tensor<1xi8>, tensor<f32>, tensor<4xi4>, tensor<1xf16>
}

// A weight in all but name is not folded.
// CHECK-LABEL: func.func @quantize_large
func.func @quantize_large() -> (tensor<4097xi8>, tensor<1xf32>) {
  // CHECK: nn.quantize
  %x = arith.constant dense<1.0> : tensor<4097xf32>
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 0>} : (tensor<4097xf32>) -> (tensor<4097xi8>, tensor<1xf32>)
  return %c, %s : tensor<4097xi8>, tensor<1xf32>
}
