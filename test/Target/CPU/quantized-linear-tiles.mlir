// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// The first tiles quantize four rows each to records of 8 bits, which lie in the scratch of the launch: 8 steps of 40
// bytes a row (32 values, a scale, and where the sum of products begins). Tiles of the matmul are numbered on from
// them.
// CHECK-LABEL: func.func @i4_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         %[[IS_FEW:.*]] = arith.cmpi sle, %[[ROWS:.*]], %c16_i64
// CHECK:         %[[IS_QUANTIZING:.*]] = arith.cmpi slt, %[[BEGIN]], %[[QUANTIZING:.*]] : i64
// CHECK:         scf.if %[[IS_QUANTIZING]]
// CHECK:           scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:             arith.muli %[[ROW]], %c320_i64
// CHECK:             vector.reduction <maxsi>
// CHECK:             scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:               vector.reduction <add>
// CHECK:               arith.muli %{{.*}}, %c-8_i32
// CHECK-COUNT-2:       arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK:         %[[LATER:.*]] = arith.subi %[[BEGIN]], %[[QUANTIZING]]
// CHECK:         %[[FIRST:.*]] = arith.maxsi %[[LATER]], %c0_i64
// CHECK:         %[[LAST:.*]] = arith.subi %[[END]], %[[QUANTIZING]]
// CHECK:         scf.for %{{.*}} = %[[FIRST]] to %[[LAST]] step %c1_i64

// Up to 16 rows: weights are unpacked in registers, for 8, 4, 2 rows or one; the panel is prefetched.
// CHECK:           scf.if %[[IS_FEW]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[TILE_ROWS:.*]] step %c8_i64
// CHECK:               %[[REST:.*]] = arith.subi %[[TILE_ROWS]], %{{.*}}
// CHECK:               %[[MORE:.*]] = arith.cmpi slt, %c4_i64, %[[REST]]
// CHECK:               scf.if %[[MORE]]
// CHECK:                 %{{.*}}:16 = scf.for
// CHECK:                   llvm.intr.prefetch
// CHECK:                   llvm.load {{.*}} -> vector<64xi8>
// CHECK:                   llvm.call_intrinsic "llvm.x86.avx512.pmaddubs.w.512"
// The elements of the other 16 columns lie half a step, 256 bytes, further on.
// CHECK:                   %[[OTHERS:.*]] = llvm.getelementptr %{{.*}}[%c256_i64]
// CHECK:                   llvm.getelementptr %[[OTHERS]][%c0_i64]
// CHECK:               %[[MORE:.*]] = arith.cmpi slt, %c2_i64, %[[REST]]
// CHECK:                 %{{.*}}:8 = scf.for
// CHECK:               %[[MORE:.*]] = arith.cmpi slt, %c1_i64, %[[REST]]
// CHECK:                 %{{.*}}:4 = scf.for
// CHECK:                 %{{.*}}:2 = scf.for

// More rows: a panel's steps are unpacked into scratch, and register tiles of 6 rows pass over them.
// CHECK:           %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:           scf.for
// CHECK-COUNT-16:    llvm.store {{.*}} : vector<64xi8>
// CHECK:             scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c6_i64
// CHECK:               %{{.*}}:12 = scf.for
// CHECK:                 llvm.call_intrinsic "llvm.x86.avx512.pmaddubs.w.512"
// CHECK:               arith.select %{{.*}}, %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK-LABEL: func.func @i4_plan
rt.kernel @i4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Slots of the launch: the records of all rows and of those that a register tile reads beyond the last (8), quantizing
// tiles of four rows, the others finish.
// CHECK-LABEL: func.func @tall_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         "llvm.intr.sadd.with.overflow"(%[[ROWS:.*]], %c8_i64)
// CHECK:         "llvm.intr.smul.with.overflow"(%{{.*}}, %c320_i64)
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c2_i64]
// CHECK:         llvm.store %{{.*}}, %[[SLOT]]
// CHECK:         %[[TILES:.*]] = arith.divui %{{.*}}, %c4_i64
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c0_i64]
// CHECK:         llvm.store %[[TILES]], %[[SLOT]]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c3_i64]
// CHECK:         llvm.store %{{.*}}, %[[SLOT]]
rt.kernel @tall(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
