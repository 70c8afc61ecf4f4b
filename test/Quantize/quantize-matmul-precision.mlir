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
