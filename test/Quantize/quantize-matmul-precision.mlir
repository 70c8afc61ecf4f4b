// RUN: intarsia-opt %s --quantize-matmul-precision | FileCheck %s
// RUN: intarsia-opt %s --quantize-matmul-precision=precision=tf32 | FileCheck %s --check-prefix=TF32
// RUN: intarsia-opt %s --quantize-matmul-precision=precision=f32 | FileCheck %s --check-prefix=NONE
// RUN: intarsia-opt %s --quantize-matmul-precision="precision=f32 attention=8" | FileCheck %s --check-prefix=BYTES
// RUN: not intarsia-opt %s --quantize-matmul-precision=precision=f8 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not intarsia-opt %s --quantize-matmul-precision=attention=4 2>&1 | FileCheck %s --check-prefix=BITS

// WRONG: error: unknown precision of matrix multiplications 'f8': f32, tf32, bf16, f16 and stored are possible
// BITS: error: unknown bits of attention '4': 8 (integers with a scale for each row of a head) and 16

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

// Attention takes the precision of the linears around it, through ops of any other kind.
// CHECK-LABEL: func.func @attention
// TF32-LABEL: func.func @attention
// NONE-LABEL: func.func @attention
func.func @attention(%x: tensor<1x?x32xf32>, %b: tensor<32x32xbf16>, %h: tensor<32x32xf16>, %m: tensor<1x1x1x?xf32>)
    -> (tensor<1x?x32xf32>, tensor<1x?x32xf32>, tensor<1x?x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x32xf32>) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x32xf32>
  %q = nn.linear %x, %b : (tensor<1x?x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x32xf32>
  %g = nn.weight @weights["g"] : tensor<32xf32>
  %qn = nn.rms_norm %q, %g {epsilon = 1.0e-6 : f32} : (tensor<1x?x32xf32>, tensor<32xf32>) -> tensor<1x?x32xf32>
  %qh = tensor.expand_shape %qn [[0], [1], [2, 3]] output_shape [1, %n, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  %k = nn.linear %x, %b : (tensor<1x?x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x32xf32>
  %kh = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, %n, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  // CHECK: nn.attention %{{.*}} mask %{{.*}} {precision = bf16, scale
  // TF32: nn.attention %{{.*}} {precision = tf32, scale
  // NONE: nn.attention %{{.*}} mask %{{[a-z0-9_]+}} {scale
  %0 = nn.attention %qh, %kh, %kh mask %m {scale = 0.2 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x1x1x?xf32>) -> tensor<1x?x1x32xf32>
  %f0 = tensor.collapse_shape %0 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %o0 = nn.linear %f0, %b : (tensor<1x?x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x32xf32>
  // What someone has chosen stays.
  // CHECK: nn.attention %{{.*}} {precision = f16, scale
  // TF32: nn.attention %{{.*}} {precision = f16, scale
  %1 = nn.attention %qh, %kh, %kh {precision = f16, scale = 0.2 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %f1 = tensor.collapse_shape %1 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %o1 = nn.linear %f1, %b : (tensor<1x?x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x32xf32>
  // Linears behind it have another precision.
  // CHECK: nn.attention %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {scale
  // TF32: nn.attention %{{.*}} {precision = tf32, scale
  %2 = nn.attention %qh, %kh, %kh {scale = 0.3 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %f2 = tensor.collapse_shape %2 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %o2 = nn.linear %f2, %h : (tensor<1x?x32xf32>, tensor<32x32xf16>) -> tensor<1x?x32xf32>
  // Its result is one of the function's.
  // CHECK: nn.attention %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {scale
  %3 = nn.attention %qh, %kh, %kh {scale = 0.4 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %f3 = tensor.collapse_shape %3 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %o3 = nn.linear %f3, %b : (tensor<1x?x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x32xf32>
  return %o0, %o1, %o2, %3, %o3 : tensor<1x?x32xf32>, tensor<1x?x32xf32>, tensor<1x?x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x32xf32>
}

// Nothing says what keys were computed in that are an argument, nor weights in f32 that they may be rounded.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: nn.attention {{.*}}precision
// CHECK: return
func.func @unknown(%x: tensor<1x?x1x32xf32>, %r: tensor<?x32xf32>, %b: tensor<32x32xbf16>, %w: tensor<32x32xf32>, %n: index) -> (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) {
  %q = nn.linear %r, %b : (tensor<?x32xf32>, tensor<32x32xbf16>) -> tensor<?x32xf32>
  %qh = tensor.expand_shape %q [[0, 1, 2], [3]] output_shape [1, %n, 1, 32] : tensor<?x32xf32> into tensor<1x?x1x32xf32>
  %0 = nn.attention %qh, %x, %qh {scale = 0.2 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %o0 = nn.linear %0, %b : (tensor<1x?x1x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x1x32xf32>
  %k = nn.linear %r, %w : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %kh = tensor.expand_shape %k [[0, 1, 2], [3]] output_shape [1, %n, 1, 32] : tensor<?x32xf32> into tensor<1x?x1x32xf32>
  %1 = nn.attention %qh, %kh, %qh {scale = 0.2 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %o1 = nn.linear %1, %b : (tensor<1x?x1x32xf32>, tensor<32x32xbf16>) -> tensor<1x?x1x32xf32>
  return %o0, %o1 : tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>
}

// Products that stand between the same linears take their precision together. What is quantized behind them has fewer
// bits than f16.
// CHECK-LABEL: func.func @products
// NONE-LABEL: func.func @products
func.func @products(%x: tensor<?x32xf32>, %h: tensor<32x32xf16>) -> tensor<?x32xf32> {
  %q = nn.linear %x, %h : (tensor<?x32xf32>, tensor<32x32xf16>) -> tensor<?x32xf32>
  // CHECK: nn.matmul %{{.*}} {precision = f16, transpose_rhs}
  // NONE: nn.matmul %{{.*}} {transpose_rhs}
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x?xf32>
  %p = nn.softmax %s : tensor<?x?xf32>
  // CHECK: nn.matmul %{{.*}} {precision = f16}
  // NONE: nn.matmul %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} :
  %v = nn.matmul %p, %q : (tensor<?x?xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %i, %is = nn.quantize %v {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x32xf32>) -> (tensor<?x32xi8>, tensor<?x1xf32>)
  %d = nn.dequantize %i, %is {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x32xi8>, tensor<?x1xf32>) -> tensor<?x32xf32>
  %w = nn.weight @weights["q"] : tensor<32x32xi4>
  %ws = nn.weight @weights["s"] : tensor<32x1xf16>
  %wd = nn.dequantize %w, %ws {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<32x32xi4>, tensor<32x1xf16>) -> tensor<32x32xf32>
  %o = nn.linear %d, %wd : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  return %o : tensor<?x32xf32>
}

// Of caches the rows count that the call adds to them: rows of earlier calls are in the format that --kv asks for.
// CHECK-LABEL: func.func @caches
func.func @caches(%x: tensor<?x32xf32>, %b: tensor<32x32xbf16>, %r: tensor<?x1x32xf32>, %n: index, %k: tensor<?x1x32x32xf16>, %v: tensor<?x1x32x32xf16>,
                  %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) -> (tensor<?x1x32xf32>, tensor<?x1x32xf32>) {
  %q = nn.linear %x, %b : (tensor<?x32xf32>, tensor<32x32xbf16>) -> tensor<?x32xf32>
  %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 1, 32] : tensor<?x32xf32> into tensor<?x1x32xf32>
  %k1 = nn.cache_append(%k) <keys, f16, page = 32>, %qh, %p, %s, %t : (tensor<?x1x32x32xf16>, tensor<?x1x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32x32xf16>
  %v1 = nn.cache_append(%v) <values, f16, page = 32>, %qh, %p, %s, %t : (tensor<?x1x32x32xf16>, tensor<?x1x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32x32xf16>
  // CHECK: nn.cached_attention %{{.*}} {precision = bf16, scale
  %0 = nn.cached_attention %qh, (%k1) <keys, f16, page = 32>, (%v1) <values, f16, page = 32>, %p, %s, %t {scale = 0.2 : f32} : (tensor<?x1x32xf32>, tensor<?x1x32x32xf16>, tensor<?x1x32x32xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32xf32>
  %o0 = nn.linear %0, %b : (tensor<?x1x32xf32>, tensor<32x32xbf16>) -> tensor<?x1x32xf32>
  %v2 = nn.cache_append(%v1) <values, f16, page = 32>, %r, %p, %s, %t : (tensor<?x1x32x32xf16>, tensor<?x1x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32x32xf16>
  // CHECK-NOT: nn.cached_attention {{.*}}precision
  %1 = nn.cached_attention %qh, (%k1) <keys, f16, page = 32>, (%v2) <values, f16, page = 32>, %p, %s, %t {scale = 0.2 : f32} : (tensor<?x1x32xf32>, tensor<?x1x32x32xf16>, tensor<?x1x32x32xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32xf32>
  %o1 = nn.linear %1, %b : (tensor<?x1x32xf32>, tensor<32x32xbf16>) -> tensor<?x1x32xf32>
  return %o0, %o1 : tensor<?x1x32xf32>, tensor<?x1x32xf32>
}

// Attention between linears whose inputs have integers of 8 bits may have them too, if it is asked for; not if a linear
// around it has none.
// CHECK-LABEL: func.func @bytes
// BYTES-LABEL: func.func @bytes
func.func @bytes(%x: tensor<1x?x32xf32>, %w: tensor<32x32xf32>) -> (tensor<1x?x32xf32>, tensor<1x?x32xf32>) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x32xf32>
  %xq, %xs = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 2>} : (tensor<1x?x32xf32>) -> (tensor<1x?x32xi8>, tensor<1x?x1xf32>)
  %xd = nn.dequantize %xq, %xs {format = #nn.block_format<i8, f32, 32, axis = 2>} : (tensor<1x?x32xi8>, tensor<1x?x1xf32>) -> tensor<1x?x32xf32>
  %q = nn.linear %xd, %w : (tensor<1x?x32xf32>, tensor<32x32xf32>) -> tensor<1x?x32xf32>
  %qh = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, %n, 1, 32] : tensor<1x?x32xf32> into tensor<1x?x1x32xf32>
  // CHECK: nn.attention %{{.*}} {precision = f16, scale = 2.000000e-01
  // BYTES: nn.attention %{{.*}} {precision = i8, scale = 2.000000e-01
  %0 = nn.attention %qh, %qh, %qh {scale = 0.2 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %f0 = tensor.collapse_shape %0 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %fq, %fs = nn.quantize %f0 {format = #nn.block_format<i8, f32, 32, axis = 2>} : (tensor<1x?x32xf32>) -> (tensor<1x?x32xi8>, tensor<1x?x1xf32>)
  %fd = nn.dequantize %fq, %fs {format = #nn.block_format<i8, f32, 32, axis = 2>} : (tensor<1x?x32xi8>, tensor<1x?x1xf32>) -> tensor<1x?x32xf32>
  %o0 = nn.linear %fd, %w : (tensor<1x?x32xf32>, tensor<32x32xf32>) -> tensor<1x?x32xf32>
  // BYTES: nn.attention %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {scale = 3.000000e-01
  %1 = nn.attention %qh, %qh, %qh {scale = 0.3 : f32} : (tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>, tensor<1x?x1x32xf32>) -> tensor<1x?x1x32xf32>
  %f1 = tensor.collapse_shape %1 [[0], [1], [2, 3]] : tensor<1x?x1x32xf32> into tensor<1x?x32xf32>
  %o1 = nn.linear %f1, %w : (tensor<1x?x32xf32>, tensor<32x32xf32>) -> tensor<1x?x32xf32>
  return %o0, %o1 : tensor<1x?x32xf32>, tensor<1x?x32xf32>
}
