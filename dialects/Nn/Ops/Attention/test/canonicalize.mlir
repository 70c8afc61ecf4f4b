// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @masks
func.func @masks(%q: tensor<1x8x12x64xf32>) -> (tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>) {
  %open = arith.constant dense<true> : tensor<1x1x1x8xi1>
  %shut = arith.constant dense<false> : tensor<1x1x1x8xi1>
  %zero = arith.constant dense<0.0> : tensor<1x1x8x8xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {scale
  %0 = nn.attention %q, %q, %q mask %open {scale = 1.0 : f32} : (tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x1x1x8xi1>) -> tensor<1x8x12x64xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale
  %1 = nn.attention %q, %q, %q mask %shut {scale = 2.0 : f32} : (tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x1x1x8xi1>) -> tensor<1x8x12x64xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {scale
  %2 = nn.attention %q, %q, %q mask %zero {scale = 3.0 : f32} : (tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x1x8x8xf32>) -> tensor<1x8x12x64xf32>
  return %0, %1, %2 : tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>, tensor<1x8x12x64xf32>
}
