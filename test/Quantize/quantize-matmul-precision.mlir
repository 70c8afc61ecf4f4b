// RUN: intarsia-opt %s --quantize-matmul-precision | FileCheck %s
// RUN: intarsia-opt %s --quantize-matmul-precision=precision=tf32 | FileCheck %s --check-prefix=TF32
// RUN: intarsia-opt %s --quantize-matmul-precision=precision=f32 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --quantize-matmul-precision=precision=f8 2>&1 | FileCheck %s --check-prefix=WRONG

// WRONG: error: unknown precision of matrix multiplications 'f8': f32, tf32, bf16, f16 and stored are possible

nn.archive @weights {file = "w.safetensors"}

// A linear has the precision of its weight; what someone has chosen stays.
// CHECK-LABEL: func.func @linears
// TF32-LABEL: func.func @linears
// NONE-LABEL: func.func @linears
func.func @linears(%x: tensor<?x32xf32>, %b: tensor<8x32xbf16>, %f: tensor<8x32xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %q = nn.weight @weights["q"] : tensor<8x32xi4>
  %s = nn.weight @weights["s"] : tensor<8x1xf16>
  %d = nn.dequantize %q, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<8x32xi4>, tensor<8x1xf16>) -> tensor<8x32xf32>
  // CHECK: nn.linear %{{.*}} {precision = bf16} : (tensor<?x32xf32>, tensor<8x32xbf16>)
  // TF32: nn.linear %{{.*}} {precision = tf32} : (tensor<?x32xf32>, tensor<8x32xbf16>)
  // NONE-NOT: precision
  // NONE: nn.linear
  %0 = nn.linear %x, %b : (tensor<?x32xf32>, tensor<8x32xbf16>) -> tensor<?x8xf32>
  // CHECK: nn.linear %{{.*}}, %{{[a-z0-9]+}} : (tensor<?x32xf32>, tensor<8x32xf32>)
  // TF32: nn.linear %{{.*}} {precision = tf32}
  %1 = nn.linear %x, %f : (tensor<?x32xf32>, tensor<8x32xf32>) -> tensor<?x8xf32>
  // CHECK: nn.linear %{{.*}} {precision = f16}
  %2 = nn.linear %x, %d : (tensor<?x32xf32>, tensor<8x32xf32>) -> tensor<?x8xf32>
  // CHECK: nn.linear %{{.*}} {precision = f16} : (tensor<?x32xf32>, tensor<8x32xbf16>)
  // TF32: nn.linear %{{.*}} {precision = f16}
  // NONE: precision = f16
  %3 = nn.linear %x, %b {precision = f16} : (tensor<?x32xf32>, tensor<8x32xbf16>) -> tensor<?x8xf32>
  return %0, %1, %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// Inputs that are quantized are multiplied as integers.
// CHECK-LABEL: func.func @integers
// CHECK-NOT: precision
func.func @integers(%x: tensor<?x32xf32>, %w: tensor<8x32xbf16>) -> tensor<?x8xf32> {
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x32xf32>) -> (tensor<?x32xi8>, tensor<?x1xf32>)
  %d = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x32xi8>, tensor<?x1xf32>) -> tensor<?x32xf32>
  %0 = nn.linear %d, %w : (tensor<?x32xf32>, tensor<8x32xbf16>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// Experts have that of both their matrices, which may be put together from those of each; rows between them are not
// quantized then.
// CHECK-LABEL: func.func @experts
// TF32-LABEL: func.func @experts
func.func @experts(%x: tensor<?x32xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %gu: tensor<2x2x32x32xbf16>, %d: tensor<2x32x32xbf16>, %f: tensor<2x32x32xf32>)
    -> (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
  // CHECK: nn.experts %{{.*}} {activation = #nn.gated_activation<silu>, precision = bf16}
  // TF32: nn.experts %{{.*}} {activation = #nn.gated_activation<silu>, precision = tf32}
  %0 = nn.experts %x, %i, %w, %gu, %d {activation = #nn.gated_activation<silu>} : (tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<2x2x32x32xbf16>, tensor<2x32x32xbf16>) -> tensor<?x32xf32>
  // CHECK: nn.experts %{{.*}} {activation = #nn.gated_activation<silu>}
  %1 = nn.experts %x, %i, %w, %gu, %f {activation = #nn.gated_activation<silu>} : (tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<2x2x32x32xbf16>, tensor<2x32x32xf32>) -> tensor<?x32xf32>
  // CHECK: nn.experts %{{.*}} {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>}
  %2 = nn.experts %x, %i, %w, %gu, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<2x2x32x32xbf16>, tensor<2x32x32xbf16>) -> tensor<?x32xf32>
  %q = nn.weight @weights["q"] : tensor<64x32xi4>
  %s = nn.weight @weights["s"] : tensor<64x1xf16>
  %dq = nn.dequantize %q, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x32xi4>, tensor<64x1xf16>) -> tensor<64x32xf32>
  %de = tensor.expand_shape %dq [[0, 1], [2]] output_shape [2, 32, 32] : tensor<64x32xf32> into tensor<2x32x32xf32>
  %ge = tensor.expand_shape %dq [[0, 1, 2], [3]] output_shape [2, 1, 32, 32] : tensor<64x32xf32> into tensor<2x1x32x32xf32>
  %gg = tensor.concat dim(1) %ge, %ge : (tensor<2x1x32x32xf32>, tensor<2x1x32x32xf32>) -> tensor<2x2x32x32xf32>
  // CHECK: nn.experts %{{.*}} {activation = #nn.gated_activation<silu>, precision = f16}
  %3 = nn.experts %x, %i, %w, %gg, %de {activation = #nn.gated_activation<silu>} : (tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<2x2x32x32xf32>, tensor<2x32x32xf32>) -> tensor<?x32xf32>
  return %0, %1, %2, %3 : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}
