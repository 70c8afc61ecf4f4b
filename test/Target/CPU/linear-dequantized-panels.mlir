// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Inputs that are not quantized: a quantized panel becomes one of f32 in scratch, which register tiles read. Every
// byte of a word is the element of one k: less the offset, times the scale, it is the value.
// CHECK-LABEL: func.func @i4_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:           %[[SCALE:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:           llvm.load %{{.*}} -> vector<64xi8>
// CHECK:           %[[WORD:.*]] = vector.bitcast %{{.*}} : vector<64xi8> to vector<16xi32>
// CHECK:           %[[ELEMENT:.*]] = arith.shrui %[[WORD]]
// CHECK:           %[[OFFSET:.*]] = vector.broadcast %c8_i32{{.*}} : i32 to vector<16xi32>
// CHECK:           %[[LESS:.*]] = arith.subi %{{.*}}, %[[OFFSET]]
// CHECK:           %[[VALUE:.*]] = arith.sitofp %[[LESS]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[VALUE]], %[[SCALE]]
// CHECK:           llvm.store %[[SCALED]]
// CHECK-NOT:     llvm.call_intrinsic
// CHECK:         %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c256_i64 step %c1_i64
// CHECK-COUNT-16:  vector.fma
// CHECK-LABEL: func.func @i4_plan
rt.kernel @i4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Minima are added.
// CHECK-LABEL: func.func @q4_k_run
// CHECK:         %[[MINIMUM:.*]] = arith.negf
// CHECK:         %[[SCALED:.*]] = arith.mulf
// CHECK-NEXT:    %[[VALUE:.*]] = arith.addf %[[SCALED]], %[[MINIMUM]]
// CHECK:         llvm.store %[[VALUE]]
// CHECK:         vector.fma
// CHECK-LABEL: func.func @q4_k_plan
rt.kernel @q4_k(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q4_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
