// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=znver4" | FileCheck %s
// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels="spec=znver5" | FileCheck %s --check-prefix=AHEAD

// Zen 4 reads weights fastest if their lines are loaded in the order of addresses, and nothing is prefetched but a line
// of the next page. Volatile loads keep their order in machine code. Up to two rows: of the tiles of 8, 4, 2 and 1 rows
// the last two. Six bits: the lines of scales are touched before the steps that use them; high bits lie behind the low
// ones.
// CHECK-LABEL: func.func @six_bits_run
// CHECK-COUNT-28: "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 3 : i32
// CHECK-NOT:      "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 3 : i32
// CHECK-COUNT-9:  llvm.load volatile %{{.*}} -> i8
// CHECK-NOT:      volatile
// CHECK:          "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 2 : i32
// CHECK:          llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-NEXT:     llvm.getelementptr %[[HALF:.*]][%c64_i64]
// CHECK-NEXT:     llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-NEXT:     llvm.getelementptr %[[HALF]][%c128_i64]
// CHECK-NEXT:     llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-NEXT:     llvm.getelementptr %[[HALF]][%c192_i64]
// CHECK-NEXT:     llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-NEXT:     llvm.getelementptr %[[HALF]][%c256_i64]
// CHECK-NEXT:     llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-NEXT:     llvm.getelementptr %[[HALF]][%c320_i64]
// CHECK-NEXT:     llvm.load volatile {{.*}} -> vector<64xi8>
// CHECK-LABEL: func.func @six_bits_plan
// AHEAD-LABEL: func.func @six_bits_run
// AHEAD-COUNT-56: "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 3 : i32
// AHEAD-NOT:      "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 3 : i32
// AHEAD-NOT:      volatile
// AHEAD-LABEL: func.func @six_bits_plan
rt.kernel @six_bits(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q6_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Eight bits with one scale a row: of 32 columns all lines of 16 before those of the others.
// CHECK-LABEL: func.func @tokens_run
// CHECK:         %{{.*}}:2 = scf.for
// CHECK:           "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 2 : i32
// CHECK-COUNT-8:   llvm.load volatile %{{.*}} -> vector<64xi8>
// CHECK:           "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 2 : i32
// CHECK-COUNT-8:   llvm.load volatile %{{.*}} -> vector<64xi8>
// CHECK:           scf.yield
// CHECK-LABEL: func.func @tokens_plan
// AHEAD-LABEL: func.func @tokens_run
// AHEAD-NOT:     volatile
// AHEAD-LABEL: func.func @tokens_plan
rt.kernel @tokens(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Floats: a line of the next page for each four k's, which one or two rows add up in four or two sums.
// CHECK-LABEL: func.func @floats_run
// CHECK-NOT:     hint = 3 : i32
// CHECK-COUNT-3: "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 2 : i32
// CHECK-NOT:     "llvm.intr.prefetch"
// CHECK-LABEL: func.func @floats_plan
// AHEAD-LABEL: func.func @floats_run
// AHEAD:         "llvm.intr.prefetch"(%{{.*}}) <{cache = 1 : i32, hint = 3 : i32
// AHEAD-LABEL: func.func @floats_plan
rt.kernel @floats(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf16> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<64x256xf16>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
