// RUN: intarsia-opt %s --partition-fit=memory=14MB 2>&1 | FileCheck %s
// RUN: intarsia-opt %s --partition-fit=memory=1GiB 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not intarsia-opt %s --partition-fit=memory=1MB 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --partition-fit=memory=20mb 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not intarsia-opt %s --partition-fit=memory=0GB 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: sed '/rt.device @cuda /d' %s | not intarsia-opt --partition-fit=memory=8GB 2>&1 | FileCheck %s --check-prefix=NOGPU
// RUN: sed '/rt.device @cpu /d' %s | not intarsia-opt --partition-fit=memory=8GB 2>&1 | FileCheck %s --check-prefix=ALONE

// Weights of 4 MiB in each of three layers; at 512 rows each value has 2 MiB. Two layers fit into 14 MB with the values
// that live at once, an input and a result.

// CHECK: remark: --gpu-memory=14MB
// CHECK-NEXT: device layers weights caches scratch predicted which
// CHECK-NEXT: cuda 2 8.39 MB 0 B 4.19 MB {{.*}} us
// CHECK-NEXT: cpu 1 4.19 MB 0 B - {{.*}} us
// CHECK-NEXT: copies between them: {{[1-9].*}} us

// WHOLE: cuda 3 12.6 MB 0 B
// WHOLE-NEXT: cpu 0 0 B 0 B - 0.0 us
// WHOLE: rt.split = [{
// WHOLE-NOT: rt.device = @cpu

// NONE: error: --gpu-memory=1MB: no layer with weights fits on @cuda; the smallest needs {{.*}} MB (weights {{.*}} MB, caches 0 B, scratch {{.*}} MB): allow more, or compile with --target=cpu alone
// SIZE: error: --gpu-memory={{.*}}: is no size: write a positive number and a unit, as in 8GB, 7.5GiB or 512MB
// NOGPU: error: --gpu-memory is about the memory of a GPU, and there is none among the devices @cpu: name one in --target, as in cuda:sm_80
// ALONE: error: --gpu-memory needs a second device for the layers that do not fit on @cuda: add one, as in --target=cpu

rt.device @cuda {target = #rt.target<"cuda", ["sm_80"]>}
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK: module attributes {rt.split = [{cache_bytes = 0 : i64, device = "cuda", {{.*}}layers = 2 : i64, limit_bytes = 14000000 : i64
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x1024xf32> {nn.sizes = ["rows", ""]}) -> tensor<?x1024xf32> attributes {nn.expected_sizes = {rows = 512 : i64}} {
  %w0 = nn.weight @weights["layer.0.up.weight"] : tensor<1024x1024xf32>
  %w1 = nn.weight @weights["layer.1.up.weight"] : tensor<1024x1024xf32>
  %w2 = nn.weight @weights["layer.2.up.weight"] : tensor<1024x1024xf32>
  // One range of layers is on the GPU: an end of the model is on the CPU.
  // CHECK: nn.linear {{.*}} {rt.device = @[[FIRST:[a-z]+]]}
  // CHECK: nn.relu {{.*}} {rt.device = @[[FIRST]]}
  // CHECK: nn.linear {{.*}} {rt.device = @cuda}
  // CHECK: nn.linear {{.*}} {rt.device = @[[LAST:[a-z]+]]}
  %0 = nn.linear %x, %w0 : (tensor<?x1024xf32>, tensor<1024x1024xf32>) -> tensor<?x1024xf32> loc("layer.0.up")
  %1 = nn.relu %0 : tensor<?x1024xf32> loc("layer.0.act")
  %2 = nn.linear %1, %w1 : (tensor<?x1024xf32>, tensor<1024x1024xf32>) -> tensor<?x1024xf32> loc("layer.1.up")
  %3 = nn.linear %2, %w2 : (tensor<?x1024xf32>, tensor<1024x1024xf32>) -> tensor<?x1024xf32> loc("layer.2.up")
  return %3 : tensor<?x1024xf32>
}
