// RUN: intarsia-opt %s --partition-search=world=4 2>&1 | FileCheck %s

// A batch of 64 examples has rows for each rank: nothing is exchanged but the results.
// CHECK: remark: --partition=auto over 4 ranks: data
// CHECK-NEXT: tensor {{.*}} % slower
// CHECK-NEXT: pipeline:2,tensor:2 {{[0-9.]+}} us a step
// CHECK-NEXT: pipeline{{ +}}--world=4 --partition=pipeline: the model has 2 layers
// CHECK-NEXT: data:2,tensor:2 {{.*}} % slower
// CHECK-NEXT: data {{.*}} us a step, {{.*}} on the fullest rank{{$}}
// CHECK: func.func @main.rank3
// CHECK: shard.all_gather
// CHECK-NOT: shard.all_reduce

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

func.func @main(%x: tensor<?x256xf32> {nn.name = "x", nn.sizes = ["batch", ""]}) -> (tensor<?x256xf32> {nn.name = "y"})
    attributes {nn.expected_sizes = {batch = 64 : i64}} {
  %w0 = nn.weight @weights["w0"] : tensor<1024x256xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x256xf32>, tensor<1024x256xf32>) -> tensor<?x1024xf32> loc("up")
  %1 = nn.relu %0 : tensor<?x1024xf32>
  %w1 = nn.weight @weights["w1"] : tensor<256x1024xf32>
  %2 = nn.linear %1, %w1 : (tensor<?x1024xf32>, tensor<256x1024xf32>) -> tensor<?x256xf32> loc("down")
  return %2 : tensor<?x256xf32>
}
