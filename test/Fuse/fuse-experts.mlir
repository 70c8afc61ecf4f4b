// RUN: intarsia-opt %s --target-declare-devices --intarsia-fuse | FileCheck %s

// Routing and experts are kernels of their own; what follows does not join them.
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}) -> tensor<?x64xf32> {
  %router = nn.weight @weights["router"] : tensor<8x64xf32>
  %gate_up = nn.weight @weights["gate_up"] : tensor<8x2x128x64xf32>
  %down = nn.weight @weights["down"] : tensor<8x64x128xf32>
  // CHECK: nn.group linear
  %logits = nn.linear %x, %router : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  // CHECK: %[[R:.*]]:2 = nn.group route
  // CHECK-NEXT: nn.route
  %i, %w = nn.route %logits {normalize, top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  // CHECK: nn.group experts({{.*}} = %[[R]]#0, {{.*}} = %[[R]]#1
  // CHECK-NEXT: nn.experts
  // CHECK-NEXT: nn.yield
  %y = nn.experts %x, %i, %w, %gate_up, %down {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x128x64xf32>, tensor<8x64x128xf32>) -> tensor<?x64xf32>
  // CHECK: nn.group rows
  // CHECK-NEXT: arith.addf
  %r = arith.addf %x, %y : tensor<?x64xf32>
  return %r : tensor<?x64xf32>
}
