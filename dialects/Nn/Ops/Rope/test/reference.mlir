// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// Angles are products of f32; what follows is not rounded again before the result.
// CHECK-LABEL: func.func @rope
func.func @rope(%x: tensor<?x?x2x8xf32>, %p: tensor<?x?xi64>, %f: tensor<4xf32>) -> tensor<?x?x2x8xf32> {
  // CHECK: %[[ANGLE:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK: %[[EXACT:.*]] = arith.extf %[[ANGLE]] : f32 to f64
  // CHECK: math.cos %[[EXACT]] : f64
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK-NOT: = nn.
  %0 = nn.rope %x, %p, %f {attention_factor = 1.0 : f32} : (tensor<?x?x2x8xf32>, tensor<?x?xi64>, tensor<4xf32>) -> tensor<?x?x2x8xf32>
  return %0 : tensor<?x?x2x8xf32>
}
