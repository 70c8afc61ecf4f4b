// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s

// bf16 is widened, but for processors whose vdpbf16ps is faster (see bf16-dot.mlir).
// CHECK-LABEL: func.func @narrow_run
// CHECK: arith.shli {{.*}} : vector<16xi32>
// CHECK: arith.bitcast {{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT: dpbf16ps
rt.kernel @narrow(%x: tensor<?x64xbf16> {nn.sizes = ["s0", ""]}, %w: tensor<32x64xbf16> {rt.layout = #rt.panels<32>})
    -> (tensor<?x32xbf16> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  rt.yield %0 : tensor<?x32xbf16>
}
