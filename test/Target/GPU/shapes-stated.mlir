// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_86 | FileCheck %s --check-prefix=OTHER

// Code follows the figures that IR states for an architecture: two stages of 64 rows of both factors by 64 bytes, not four.
// CHECK: gpu.func @itx_k0_0({{.*}} itx.shared = "16384"
// OTHER: gpu.func @itx_k0_0({{.*}} itx.shared = "32768"
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {sm_80 = [{stages = 2 : i64}]}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
