// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// Groups are inlined; weights stay.
// CHECK-LABEL: func.func @group
nn.archive @weights {file = "model.safetensors"}
func.func @group(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK: nn.weight @weights["g"]
  // CHECK-NOT: = nn.
  // CHECK: math.sqrt
  %g = nn.weight @weights["g"] : tensor<4xf32>
  %r = nn.group rows(%a = %x, %b = %g) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32> {
    %n = nn.rms_norm %a, %b {epsilon = 1.0e-6 : f32} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    nn.yield %n : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}

// -----

// A result that is declared less static than what is computed is cast.
// CHECK-LABEL: func.func @cast
func.func @cast(%t: tensor<8x4xf32>, %i: tensor<3xi64>) -> tensor<?x4xf32> {
  // CHECK: %[[E:.*]] = linalg.generic
  // CHECK: tensor.extract
  // CHECK: tensor.cast %[[E]] : tensor<3x4xf32> to tensor<?x4xf32>
  %0 = nn.embedding %t, %i : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
