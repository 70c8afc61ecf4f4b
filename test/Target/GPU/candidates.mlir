// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s

// A row of 5000 logits has three parts of up to 2048. Each part has a list of 64 entries and five floats in scratch.
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME:    itx.grid = "rows * 3"
// CHECK-SAME:    itx.scratch = "rows * 1536 + ((rows * 60) ceildiv 64) * 64"
// CHECK-SAME:    itx.shared = "4288", known_block_size = array<i32: 256, 1, 1>
// CHECK:         llvm.call @itx_candidates_of_parts(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %c5000_i64,
// CHECK-LABEL: gpu.func @itx_k0_1
// CHECK-SAME:    itx.grid = "rows"
// CHECK:         llvm.call @itx_candidates_of_rows
rt.kernel @candidates(%l: tensor<?x5000xf32> {nn.sizes = ["rows", ""]}, %t: tensor<?x2xf32> {nn.sizes = ["rows", ""]})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}, tensor<?x64xi32> {nn.sizes = ["rows", ""]}, tensor<?x2xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<candidates>, sizes = ["rows"]} {
  %v, %i, %s = nn.candidates %l, %t {count = 64 : i64} : (tensor<?x5000xf32>, tensor<?x2xf32>) -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>)
  rt.yield %v, %i, %s : tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>
}
