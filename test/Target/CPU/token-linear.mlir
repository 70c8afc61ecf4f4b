// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver4" | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s --check-prefix=AVX2
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64" | FileCheck %s --check-prefix=PLAIN

// A row of the scratch that all threads see: where its sums begin, its scale, 256 quantized values. Tiles of four rows
// quantize, with one maximum a row; the others multiply eight rows at a time (four, two and one where few are left),
// and add up nothing but integers: the loop over steps of 32 features carries 8 x 2 sums of i32, and scales are applied
// behind it. Panels are read as they lie: no store is in that loop.
// CHECK-LABEL: func.func @tokens_run
// CHECK:         scf.for
// CHECK:           arith.muli %{{.*}}, %c264_i64
// CHECK:           vector.reduction <maxsi>
// CHECK:           scf.for {{.*}} -> (vector<16xi32>)
// CHECK:             arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK:           vector.reduction <add>
// CHECK:           arith.muli %{{.*}}, %c-128_i32
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8_i64
// CHECK:           arith.cmpi slt, %c4_i64
// CHECK:           %[[SUMS:.*]]:16 = scf.for
// CHECK-NOT:         llvm.store
// CHECK:             llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT:         llvm.store
// CHECK:           arith.sitofp %[[SUMS]]#0 : vector<16xi32> to vector<16xf32>
// CHECK:           arith.cmpi slt, %c2_i64
// CHECK:           %{{.*}}:8 = scf.for
// CHECK:           arith.cmpi slt, %c1_i64
// CHECK:           %{{.*}}:4 = scf.for
// CHECK:           %{{.*}}:2 = scf.for
// CHECK-LABEL: func.func @tokens_plan
// AVX2-LABEL: func.func @tokens_run
// AVX2:         %{{.*}}:8 = scf.for
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// PLAIN-LABEL: func.func @tokens_run
// PLAIN-NOT:     llvm.call_intrinsic
// PLAIN:         arith.muli {{.*}} : vector<4xi32>
// PLAIN-LABEL: func.func @tokens_plan
rt.kernel @tokens(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// With a scale for each 256 features of a row sums of integers end there; the first ones are stored, others added.
// CHECK-LABEL: func.func @wide_run
// CHECK:         %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:         scf.for %{{.*}} = %c1_i64 to %c2_i64 step %c1_i64
// CHECK:           %{{.*}}:16 = scf.for
// CHECK:             llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:           vector.fma
rt.kernel @wide(%x: tensor<?x384xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x384xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x384xf32>) -> (tensor<?x384xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x384xi8>, tensor<?x2xf32>) -> tensor<?x384xf32>
  %0 = nn.linear %r, %w : (tensor<?x384xf32>, tensor<64x384xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
