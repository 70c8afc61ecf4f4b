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
// Without vpdpbusd both factors have 16 bits: five rows, of which the sums of two vectors become those of one.
// AVX2:         arith.trunci {{.*}} : vector<8xi32> to vector<8xi16>
// AVX2:         %[[SUMS:.*]]:10 = scf.for
// AVX2-NOT:       pmadd.ub.sw
// AVX2:           arith.extui {{.*}} : vector<16xi8> to vector<16xi16>
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"{{.*}} : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>
// AVX2:         %[[EVEN:.*]] = vector.shuffle %[[SUMS]]#0, %[[SUMS]]#1 [0, 2, 8, 10, 4, 6, 12, 14]
// AVX2:         %[[ODD:.*]] = vector.shuffle %[[SUMS]]#0, %[[SUMS]]#1 [1, 3, 9, 11, 5, 7, 13, 15]
// AVX2:         %[[BOTH:.*]] = arith.addi %[[EVEN]], %[[ODD]]
// AVX2:         vector.shuffle %[[BOTH]], %[[BOTH]] [0, 1, 4, 5, 2, 3, 6, 7]
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

// A result that the next linear multiplies in bytes is quantized in its tile: 64 rows by the 256 features of a scale.
// CHECK-LABEL: func.func @passed_run
// CHECK:         vector.reduction <maxsi>
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8_i64
// CHECK:           llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:         vector.reduction <maxsi>
// CHECK:         arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK-LABEL: func.func @passed_plan
rt.kernel @passed(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<512x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x512xi8> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
  %1, %2 = nn.quantize %0 {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x512xf32>) -> (tensor<?x512xi8>, tensor<?x2xf32>)
  rt.yield %1, %2 : tensor<?x512xi8>, tensor<?x2xf32>
}

// Rows that are quantized already are copied in vectors of bytes, which products by 1 add up: no maximum is looked for.
// CHECK-LABEL: func.func @read_run
// CHECK-NOT:     vector.reduction <maxsi>
// CHECK:         %[[BYTES:.*]] = llvm.load {{.*}} : !llvm.ptr -> vector<64xi8>
// CHECK:         llvm.store %[[BYTES]]
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:         vector.reduction <add>
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-LABEL: func.func @read_plan
rt.kernel @read(%c: tensor<?x512xi8> {nn.sizes = ["s0", ""]}, %s: tensor<?x2xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x512xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x512xi8>, tensor<?x2xf32>) -> tensor<?x512xf32>
  %0 = nn.linear %r, %w : (tensor<?x512xf32>, tensor<64x512xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
