// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}, %logits: tensor<?x8xf32> {nn.sizes = ["tokens", ""]},
                %gate_up: tensor<8x2x128x64xbf16>, %down: tensor<8x64x128xbf16>) -> tensor<?x64xf32> {
  // CHECK: nn.route %{{.*}} {normalize, top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %i, %w = nn.route %logits {normalize, top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // CHECK: nn.experts %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {activation = #nn.gated_activation<silu>} :
  %y = nn.experts %x, %i, %w, %gate_up, %down {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xbf16>, tensor<8x64x128xbf16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @clamped
func.func @clamped(%x: tensor<5x64xf32>, %i: tensor<?x2xi64>, %w: tensor<?x2xf32>, %gate_up: tensor<8x2x128x64xf32>,
                   %down: tensor<8x64x128xf32>, %b1: tensor<8x2x128xbf16>, %b2: tensor<8x64xf32>) -> tensor<5x64xf32> {
  // CHECK: nn.experts {{.*}} gate_up_bias %{{.*}} down_bias %{{.*}} {activation = #nn.gated_activation<clamped_swiglu>, limit = 5.000000e+00 : f32} :
  %y = nn.experts %x, %i, %w, %gate_up, %down gate_up_bias %b1 down_bias %b2 {activation = #nn.gated_activation<clamped_swiglu>, limit = 5.0 : f32} : (tensor<5x64xf32>, tensor<?x2xi64>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>, tensor<8x2x128xbf16>, tensor<8x64xf32>) -> tensor<5x64xf32>
  return %y : tensor<5x64xf32>
}
