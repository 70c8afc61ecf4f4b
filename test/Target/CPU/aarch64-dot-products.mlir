// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64+dotprod" | FileCheck %s --check-prefixes=CHECK,SIGNED
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64+dotprod+i8mm" | FileCheck %s --check-prefixes=CHECK,UNSIGNED
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=neoverse-n1" | FileCheck %s --check-prefixes=CHECK,SIGNED
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=neoverse-v1" | FileCheck %s --check-prefixes=CHECK,UNSIGNED

// A register tile of eight rows by two vectors. A vector of four words of a row is loaded at once, and multiplied by
// its lanes. Stored elements of 8 bits are unsigned: sdot reads them with their highest bit flipped, so that no offset
// is left to subtract; usdot reads them as they are.
// CHECK-LABEL:  func.func @tokens_run
// SIGNED:         arith.muli %{{.*}}, %c0_i32 : i32
// UNSIGNED:       arith.muli %{{.*}}, %c-128_i32 : i32
// CHECK:          scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8_i64
// CHECK:            %{{.*}}:16 = scf.for
// SIGNED:             arith.xori %{{.*}}, %{{.*}} : vector<16xi8>
// CHECK:              %[[WORDS:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<4xi32>
// CHECK:              vector.shuffle %[[WORDS]], %[[WORDS]] [0, 0, 0, 0]
// SIGNED:             llvm.call_intrinsic "llvm.aarch64.neon.sdot"{{.*}} : (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// UNSIGNED-NOT:       arith.xori
// UNSIGNED:           llvm.call_intrinsic "llvm.aarch64.neon.usdot"{{.*}} : (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// CHECK:              vector.shuffle %{{.*}}, %{{.*}} [3, 3, 3, 3]
// CHECK-LABEL:  func.func @tokens_plan
rt.kernel @tokens(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// Elements of 4 bits are small enough for both instructions as they lie, and their offset stays.
// CHECK-LABEL:  func.func @i4_run
// CHECK:          arith.muli %{{.*}}, %c-8_i32 : i32
// CHECK-NOT:      arith.xori
// SIGNED:         llvm.call_intrinsic "llvm.aarch64.neon.sdot"
// UNSIGNED:       llvm.call_intrinsic "llvm.aarch64.neon.usdot"
// CHECK-LABEL:  func.func @i4_plan
rt.kernel @i4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x8xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xi8>, tensor<?x8xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// Elements of E2M1 are looked up in a table, as twice their values and 12.
// CHECK-LABEL:  func.func @e2m1_run
// CHECK:          arith.muli %{{.*}}, %c-12_i32 : i32
// CHECK:          llvm.call_intrinsic "llvm.aarch64.neon.tbl1"{{.*}} : (vector<16xi8>, vector<16xi8>) -> vector<16xi8>
// SIGNED:         llvm.call_intrinsic "llvm.aarch64.neon.sdot"
// UNSIGNED:       llvm.call_intrinsic "llvm.aarch64.neon.usdot"
// CHECK-LABEL:  func.func @e2m1_plan
rt.kernel @e2m1(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e8m0, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x8xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xi8>, tensor<?x8xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// Attention in bytes needs unsigned factors: exponentials are up to 255. Register tiles have as many rows as a vector
// has elements, because features are padded to whole vectors.
// CHECK-LABEL:   func.func @attention_run
// SIGNED-NOT:      llvm.call_intrinsic "llvm.aarch64.neon
// UNSIGNED:        scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c4_i64
// UNSIGNED:          %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c5_i64
// UNSIGNED-COUNT-8:    llvm.call_intrinsic "llvm.aarch64.neon.usdot"
// UNSIGNED:        scf.for %{{.*}} = %c0_i64 to %c20_i64 step %c4_i64
// UNSIGNED:          %{{.*}}:8 = scf.for
// UNSIGNED-COUNT-8:    llvm.call_intrinsic "llvm.aarch64.neon.usdot"
// CHECK-LABEL:   func.func @attention_plan
rt.kernel @attention(%q: tensor<2x?x4x20xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<2x?x4x20xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<2x?x4x20xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %k {precision = i8, scale = 0.5 : f32} : (tensor<2x?x4x20xf32>, tensor<2x?x4x20xf32>, tensor<2x?x4x20xf32>) -> tensor<2x?x4x20xf32>
  rt.yield %0 : tensor<2x?x4x20xf32>
}
