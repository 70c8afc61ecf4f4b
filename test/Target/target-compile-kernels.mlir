// RUN: intarsia-opt %s --target-compile-kernels --mlir-elide-resource-strings-if-larger=8 --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --intarsia-target --split-input-file -o /dev/null

// Kernels become declarations, with all that the host program needs; a device has an object for each variant, the best
// first. An object of `reference` has the kernels of all devices: it computes them a second time.
// CHECK-LABEL: rt.device @cpu
// CHECK: rt.kernel @relu(tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]}{{$}}
// CHECK: rt.kernel @square(tensor<8xf32>) -> tensor<8xf32> attributes {device = @slow, root = #nn.root<rows>, sizes = []}{{$}}
// CHECK-NOT: rt.yield
// CHECK: rt.object @"cpu.x86-64-v3" {code = [dense_resource<"relu.x86-64-v3"> : tensor<{{[0-9]+}}xi8>], device = @cpu, hash = "{{[0-9a-f]+}}", host = "x86_64-unknown-linux-gnu", kernels = [@relu], number = 0 : i64, numbers = array<i64: 0>, variant = #rt.variant<"x86-64-v3", cpu = "x86-64-v3", features = [{{.*}}"avx2"{{.*}}]>}
// CHECK: rt.object @"cpu.x86-64-v2" {{.*}} number = 1 : i64
// CHECK: rt.object @"slow.x86_64-unknown-linux-gnu" {{.*}} device = @slow, {{.*}} kernels = [@relu, @square], number = 0 : i64, numbers = array<i64: 0, 1>, variant = #rt.variant<"x86_64-unknown-linux-gnu", cpu = "">
// CHECK: func.func private @f
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v2", "x86-64-v3"]>}
rt.device @slow {target = #rt.target<"reference", ["native"]>}
rt.kernel @relu(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {device = @cpu, root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}
rt.kernel @square(%x: tensor<8xf32>) -> tensor<8xf32> attributes {device = @slow, root = #nn.root<rows>, sizes = []} {
  %r = arith.mulf %x, %x : tensor<8xf32>
  rt.yield %r : tensor<8xf32>
}
func.func private @f()

// -----

// Variants for several hosts: objects of every device for each.
// CHECK-LABEL: rt.device @cpu
// CHECK: rt.object @cpu.aarch64 {{.*}} host = "aarch64-unknown-linux-gnu", {{.*}} number = 0 : i64
// CHECK: rt.object @"reference.aarch64-unknown-linux-gnu" {{.*}} host = "aarch64-unknown-linux-gnu"
// CHECK: rt.object @"cpu.x86-64-v2" {{.*}} host = "x86_64-unknown-linux-gnu", {{.*}} number = 0 : i64
// CHECK: rt.object @"reference.x86_64-unknown-linux-gnu" {{.*}} host = "x86_64-unknown-linux-gnu"
rt.device @cpu {target = #rt.target<"cpu", ["aarch64", "x86-64-v2"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
rt.kernel @relu(%x: tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %r = nn.relu %x : tensor<8xf32>
  rt.yield %r : tensor<8xf32>
}
