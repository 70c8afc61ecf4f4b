// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// A format of rows between the matmuls quantizes values of f32; without one they are not quantized.
// CHECK-LABEL: func.func @experts
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: arith.truncf
// CHECK-LABEL: func.func @unquantized
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: arith.truncf
func.func @experts(%x: tensor<?x24xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %g: tensor<5x2x64x24xf32>, %d: tensor<5x24x64xf32>) -> tensor<?x24xf32> {
  %0 = nn.experts %x, %i, %m, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x24xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x2x64x24xf32>, tensor<5x24x64xf32>) -> tensor<?x24xf32>
  return %0 : tensor<?x24xf32>
}
func.func @unquantized(%x: tensor<?x24xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %g: tensor<5x2x64x24xf32>, %d: tensor<5x24x64xf32>) -> tensor<?x24xf32> {
  %0 = nn.experts %x, %i, %m, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x24xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x2x64x24xf32>, tensor<5x24x64xf32>) -> tensor<?x24xf32>
  return %0 : tensor<?x24xf32>
}
