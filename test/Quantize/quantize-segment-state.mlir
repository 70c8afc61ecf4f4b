// RUN: intarsia-opt %s --quantize-segment=segment=0 | FileCheck %s

// A state after the call that has no name gets that of the state before it, or its number.
// CHECK-LABEL: func.func @named
// CHECK-SAME: -> (tensor<4xf32> {nn.name = "s", nn.state = 0 : i64})
func.func @named(%s: tensor<4xf32> {nn.name = "s", nn.state}) -> (tensor<4xf32> {nn.state = 0 : i64}) {
  %0 = nn.relu %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @unnamed
// CHECK-SAME: -> (tensor<4xf32> {nn.name = "state.1", nn.state = 1 : i64})
func.func @unnamed(%x: tensor<4xf32>, %s: tensor<4xf32> {nn.state}) -> (tensor<4xf32> {nn.state = 1 : i64}) {
  %0 = arith.addf %x, %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}
