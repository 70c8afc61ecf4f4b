// RUN: intarsia-opt %s --lower-groups-to-kernels | FileCheck %s

// Indices that the kernel computes itself are no argument of it.
// CHECK: rt.kernel
// CHECK-SAME: tensor<99x48xf32> {rt.gathered = -1 : i64, rt.layout =

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

func.func @main(%ids: tensor<8xi64> {nn.name = "ids"}) -> (tensor<4x48xf32> {nn.name = "y"}) {
  %table = nn.weight @weights["table"] : tensor<99x48xf32>
  %y = nn.group rows(%i = %ids, %t = %table) : (tensor<8xi64>, tensor<99x48xf32>) -> tensor<4x48xf32> {
    %own = tensor.extract_slice %i[4] [4] [1] : tensor<8xi64> to tensor<4xi64>
    %rows = nn.embedding %t, %own : (tensor<99x48xf32>, tensor<4xi64>) -> tensor<4x48xf32>
    nn.yield %rows : tensor<4x48xf32>
  }
  return %y : tensor<4x48xf32>
}
