// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 --split-input-file --verify-diagnostics | FileCheck %s

// References compute in f64, which GPUs do slowly: f32 takes its place.
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-NOT: f64
// CHECK: arith.mulf %{{.*}} : f32
// CHECK-NOT: f64
rt.kernel @f32(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %y: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {root = #nn.root<matmul>, sizes = []} {
  %n = nn.rms_norm %x, %s {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // expected-remark @below {{kernel 'f32' is slow on sm_80}}
  %0 = nn.matmul %n, %y : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  rt.yield %0 : tensor<4x16xf32>
}

// -----

// What the user has in f64 is computed and written so.
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK: arith.mulf %{{.*}} : f64
rt.kernel @f64(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) -> tensor<4x16xf64> attributes {root = #nn.root<matmul>, sizes = []} {
  // expected-remark @below {{because an op that is not elementwise, or f64, is in the same kernel}}
  %0 = nn.matmul %x, %y : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = arith.extf %0 : tensor<4x16xf32> to tensor<4x16xf64>
  %2 = arith.mulf %1, %1 : tensor<4x16xf64>
  rt.yield %2 : tensor<4x16xf64>
}

// -----

rt.kernel @function(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) -> tensor<4x16xf64> attributes {root = #nn.root<matmul>, sizes = []} {
  // expected-remark @below {{because an op that is not elementwise, or f64, is in the same kernel}}
  %0 = nn.matmul %x, %y : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = arith.extf %0 : tensor<4x16xf32> to tensor<4x16xf64>
  // expected-error @below {{there is no polynomial for it in f64}}
  %2 = math.exp %1 : tensor<4x16xf64>
  rt.yield %2 : tensor<4x16xf64>
}
