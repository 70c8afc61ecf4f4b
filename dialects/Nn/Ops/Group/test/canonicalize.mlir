// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @group
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>
func.func @group(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: nn.group rows(%[[A:.*]] = %[[X]]) {why = "kept"} : (tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[A]]
  // CHECK-NEXT: nn.yield %[[S]] : tensor<4xf32>
  %r:2 = nn.group rows(%a = %x, %b = %y, %c = %x) {why = "kept"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %s = arith.addf %a, %c : tensor<4xf32>
    nn.yield %s, %b : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0 : tensor<4xf32>
}
