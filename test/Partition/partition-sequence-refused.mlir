// RUN: not intarsia-opt %s --partition-shard=world=2 --partition-sequence 2>&1 >/dev/null | FileCheck %s

// What ranks add up is the result: no norm and no residual is computed for rows.

nn.archive @weights {file = "model.safetensors"}

// CHECK: error: --partition=tensor,sequence: sequence: no norm or sum reads what ranks that share layers add up; leave sequence out
func.func @main(%x: tensor<?x24xf32> {nn.name = "x", nn.sizes = ["tokens", ""]}) -> (tensor<?x24xf32> {nn.name = "y"}) {
  %w0 = nn.weight @weights["up0"] : tensor<96x24xf32>
  %u0 = nn.linear %x, %w0 : (tensor<?x24xf32>, tensor<96x24xf32>) -> tensor<?x96xf32>
  %a0 = nn.relu %u0 : tensor<?x96xf32>
  %v0 = nn.weight @weights["down0"] : tensor<24x96xf32>
  %d0 = nn.linear %a0, %v0 : (tensor<?x96xf32>, tensor<24x96xf32>) -> tensor<?x24xf32> loc("down0")
  return %d0 : tensor<?x24xf32>
}
