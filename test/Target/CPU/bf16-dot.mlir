// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver5" | FileCheck %s

// Pairs of k: rows of the packed weights are interleaved, pairs of the input broadcast.
// CHECK-LABEL: func.func @narrow_run
// CHECK: vector.shuffle {{.*}} [0, 16, 1, 17,
// CHECK: vector.bitcast {{.*}} : vector<16xi32> to vector<32xbf16>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
rt.kernel @narrow(%x: tensor<?x64xbf16> {nn.sizes = ["s0", ""]}, %w: tensor<32x64xbf16> {rt.layout = #rt.panels<32>})
    -> (tensor<?x32xbf16> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  rt.yield %0 : tensor<?x32xbf16>
}
