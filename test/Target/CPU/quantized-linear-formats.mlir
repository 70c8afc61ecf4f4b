// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// How the panels of each block format are unpacked for many rows: where the units and elements of a panel lie, how
// elements and scales are read. The weight is [64, 256].

// A panel has 8 steps of 576 bytes: scales of 32 rows in f16, then elements in halves of bytes.
// CHECK-LABEL: func.func @i4_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c4608_i64
// CHECK:         arith.muli %{{.*}}, %c576_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[MASK:.*]] = vector.broadcast %c15_i8 : i8 to vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]], %[[MASK]]
// CHECK:         llvm.store %[[LOW]]
// CHECK:         %[[SHIFT:.*]] = vector.broadcast %c4_i8 : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.shrui %[[LINE]], %[[SHIFT]]
// CHECK-NEXT:    %[[TO:.*]] = llvm.getelementptr %{{.*}}[%c512_i64]
// CHECK-NEXT:    llvm.store %[[HIGH]], %[[TO]]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[SCALE]]
// CHECK:         llvm.store %[[WIDE]]
// CHECK-LABEL: func.func @i4_plan
rt.kernel @i4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Four words lie in one line, two bits of each. The scale of 128 elements is that of four steps: a unit has 1088 bytes.
// CHECK-LABEL: func.func @ternary_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c2176_i64
// CHECK:         arith.muli %{{.*}}, %c1088_i64
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[OTHER:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[MASK:.*]] = vector.broadcast %c3_i8{{.*}} : i8 to vector<64xi8>
// CHECK:         %[[FIRST:.*]] = arith.andi %[[LINE]], %[[MASK]]
// CHECK:         llvm.store %[[FIRST]]
// CHECK:         %[[BY:.*]] = vector.broadcast %c2_i8{{.*}} : i8 to vector<64xi8>
// CHECK:         %[[SHIFTED:.*]] = arith.shrui %[[LINE]], %[[BY]]
// CHECK:         %[[SECOND:.*]] = arith.andi %[[SHIFTED]]
// CHECK:         llvm.store %[[SECOND]]
// CHECK-LABEL: func.func @ternary_plan
rt.kernel @ternary(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<ternary, f16, 128, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The fifth bits of the eight words of a step lie in one line behind those of the lower four.
// CHECK-LABEL: func.func @i5_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c5632_i64
// CHECK:         arith.muli %{{.*}}, %c704_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         llvm.getelementptr %{{.*}}[%c256_i64]
// CHECK-NEXT:    %[[UPPER:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]]
// CHECK:         %[[BY:.*]] = vector.broadcast %c4_i8{{.*}} : i8 to vector<64xi8>
// CHECK-NEXT:    %[[MOVED:.*]] = arith.shli %[[UPPER]], %[[BY]]
// CHECK:         %[[MASK:.*]] = vector.broadcast %c16_i8 : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.andi %[[MOVED]], %[[MASK]]
// CHECK:         %[[ELEMENT:.*]] = arith.ori %[[LOW]], %[[HIGH]]
// CHECK:         llvm.store %[[ELEMENT]]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[SCALE]]
// CHECK:         llvm.store %[[WIDE]]
// CHECK-LABEL: func.func @i5_plan
rt.kernel @i5(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i5, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The upper two of six bits lie in lines of their own behind those of the lower four.
// CHECK-LABEL: func.func @i6_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c6656_i64
// CHECK:         arith.muli %{{.*}}, %c832_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         llvm.getelementptr %{{.*}}[%c256_i64]
// CHECK-NEXT:    %[[UPPER:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         llvm.getelementptr %{{.*}}[%c320_i64]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]]
// CHECK:         %[[BY:.*]] = vector.broadcast %c4_i8{{.*}} : i8 to vector<64xi8>
// CHECK-NEXT:    %[[MOVED:.*]] = arith.shli %[[UPPER]], %[[BY]]
// CHECK:         %[[MASK:.*]] = vector.broadcast %c48_i8 : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.andi %[[MOVED]], %[[MASK]]
// CHECK:         %[[ELEMENT:.*]] = arith.ori %[[LOW]], %[[HIGH]]
// CHECK:         llvm.store %[[ELEMENT]]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[SCALE]]
// CHECK:         llvm.store %[[WIDE]]
// CHECK-LABEL: func.func @i6_plan
rt.kernel @i6(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i6, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Bytes are stored as they are; multiplications take the magnitude of an element and give its sign to the activation.
// CHECK-LABEL: func.func @i8_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c8704_i64
// CHECK:         arith.muli %{{.*}}, %c1088_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK-NEXT:    %[[TO:.*]] = llvm.getelementptr %{{.*}}[%c0_i64]
// CHECK-NEXT:    llvm.store %[[LINE]], %[[TO]]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[SCALE]]
// CHECK:         llvm.store %[[WIDE]]
// CHECK:         %[[FLIP:.*]] = vector.broadcast %c-128_i8{{.*}} : i8 to vector<64xi8>
// CHECK:         %[[ELEMENT:.*]] = arith.xori %{{.*}}, %[[FLIP]]
// CHECK:         math.absi %[[ELEMENT]]
// CHECK:         %[[IS_NEGATIVE:.*]] = arith.cmpi slt, %[[ELEMENT]]
// CHECK:         arith.select %[[IS_NEGATIVE]]
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512.pmaddubs.w.512"
// CHECK-LABEL: func.func @i8_plan
rt.kernel @i8(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Two steps of 512 bytes share a unit, so that their scales of a byte fill a line. A table has twice the values of
// E2M1 plus 12; a scale is an exponent.
// CHECK-LABEL: func.func @mxfp4_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c4352_i64
// CHECK:         arith.remui %{{.*}}, %c2_i64
// CHECK:         arith.muli %{{.*}}, %c1088_i64
// CHECK:         %[[STEP:.*]] = arith.muli %{{.*}}, %c512_i64
// CHECK:         arith.addi %c64_i64, %[[STEP]]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]]
// CHECK:         %[[TABLE:.*]] = arith.constant dense<[12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
// CHECK-NEXT:    %[[ELEMENTS:.*]] = llvm.call_intrinsic "llvm.x86.avx512.pshuf.b.512"(%[[TABLE]], %[[LOW]])
// CHECK:         llvm.store %[[ELEMENTS]]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xi8>
// CHECK:         %[[WIDE:.*]] = arith.extui %[[SCALE]] : vector<16xi8> to vector<16xi32>
// CHECK:         %[[BY:.*]] = vector.broadcast %c23_i32 : i32 to vector<16xi32>
// CHECK:         arith.shli %[[WIDE]], %[[BY]]
// CHECK:         arith.bitcast %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-LABEL: func.func @mxfp4_plan
rt.kernel @mxfp4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e8m0, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Blocks of 16: a step has two scales of E4M3. The scale of the tensor is the panel's head of 128 bytes, which the
// results are multiplied by.
// CHECK-LABEL: func.func @nvfp4_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c4736_i64
// CHECK:         %[[STEP:.*]] = arith.muli %{{.*}}, %c576_i64
// CHECK:         arith.addi %c128_i64, %[[STEP]]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]]
// CHECK:         %[[TABLE:.*]] = arith.constant dense<[12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
// CHECK-NEXT:    %[[ELEMENTS:.*]] = llvm.call_intrinsic "llvm.x86.avx512.pshuf.b.512"(%[[TABLE]], %[[LOW]])
// CHECK:         llvm.store %[[ELEMENTS]]
// CHECK:         arith.muli %{{.*}}, %c2_i64
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xi8>
// CHECK:         %[[WIDE:.*]] = arith.extui %[[SCALE]] : vector<16xi8> to vector<16xi16>
// CHECK:         %[[BY:.*]] = vector.broadcast %c7_i16 : i16 to vector<16xi16>
// CHECK:         arith.shli %[[WIDE]], %[[BY]]
// CHECK:         arith.bitcast %{{.*}} : vector<16xi16> to vector<16xf16>
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c6_i64
// CHECK:         %[[SUM:.*]] = arith.mulf {{.*}} : vector<16xf32>
// CHECK:         llvm.store %[[SUM]]
// CHECK-LABEL: func.func @nvfp4_plan
rt.kernel @nvfp4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e4m3, 16, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Floats of 8 bits are decoded and multiplied as floats. A panel has 32 scales of f32, then 8 steps of 1024 bytes.
// CHECK-LABEL: func.func @e4m3_run
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf32>
// The bias of f16, as which elements are read, is 8 more.
// CHECK:         %[[BIAS:.*]] = arith.constant dense<2.560000e+02> : vector<16xf32>
// CHECK:         %[[FACTORED:.*]] = arith.mulf %[[SCALE]], %[[BIAS]]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[WORDS:.*]] = vector.bitcast %[[LINE]] : vector<64xi8> to vector<16xi32>
// CHECK:         arith.trunci %{{.*}} : vector<16xi32> to vector<16xi16>
// CHECK:         %[[VALUE:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:         arith.mulf %[[VALUE]], %[[FACTORED]]
// CHECK-LABEL: func.func @e4m3_plan
rt.kernel @e4m3(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e4m3, f32, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
