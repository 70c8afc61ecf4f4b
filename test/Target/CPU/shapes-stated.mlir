// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s --check-prefix=OTHER

// Code follows the figures that IR states for a variant: register tiles of 3 rows instead of 8. Another variant chooses.
// CHECK-LABEL: func.func @matmul_run
// CHECK: scf.for {{.*}} step %c3_i64
// CHECK-NOT: step %c8_i64
// OTHER-LABEL: func.func @matmul_run
// OTHER: scf.for {{.*}} step %c6_i64
rt.kernel @matmul(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {tile_rows = 3 : i64}}, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
