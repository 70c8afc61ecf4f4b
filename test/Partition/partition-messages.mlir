// RUN: intarsia-opt %s --partition-shard=world=2 --partition-messages 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-shard=world=2 --partition-messages 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not intarsia-opt %s --partition-messages 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE

// At the expected one token: 24 values of 4 bytes, or 9/32 of that.
// CHECK: module attributes {rt.messages = [{f32_bytes = 96 : i64, int8_bytes = 27 : i64, messages = "int8", sums = 1 : i64}]}
// CHECK: shard.grid @world(shape = 2) {rt.messages = "int8"}
// REMARK: remark: messages between hosts in 8 bits: 1 sum of a rank, 0.0 KB instead of 0.1 KB at the expected sizes; nothing is rounded on one host
// NONE: error: --rank-messages=int8: ranks add up no f32: it is for --partition=tensor, expert and what goes with them; leave it out

nn.archive @weights {file = "model.safetensors"}

func.func @main(%x: tensor<?x24xf32> {nn.name = "x", nn.sizes = ["tokens", ""]}) -> (tensor<?x24xf32> {nn.name = "y"}) {
  %w0 = nn.weight @weights["up0"] : tensor<96x24xf32>
  %u0 = nn.linear %x, %w0 : (tensor<?x24xf32>, tensor<96x24xf32>) -> tensor<?x96xf32>
  %a0 = nn.relu %u0 : tensor<?x96xf32>
  %v0 = nn.weight @weights["down0"] : tensor<24x96xf32>
  %d0 = nn.linear %a0, %v0 : (tensor<?x96xf32>, tensor<24x96xf32>) -> tensor<?x24xf32> loc("down0")
  return %d0 : tensor<?x24xf32>
}
