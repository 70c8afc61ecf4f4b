// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// How the panels of types of GGUF files are unpacked for many rows. The weight is [64, 256].

// The same layout as 4-bit integers with f16 scales.
// CHECK-LABEL: func.func @q4_0_run
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
// CHECK-LABEL: func.func @q4_0_plan
rt.kernel @q4_0(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q4_0>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Minima lie behind the scales and go into scratch behind them, 32 columns further on; records hold sums.
// CHECK-LABEL: func.func @q4_1_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c5120_i64
// CHECK:         arith.muli %{{.*}}, %c640_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c128_i64]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[MASK:.*]] = vector.broadcast %c15_i8 : i8 to vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]], %[[MASK]]
// CHECK:         llvm.store %[[LOW]]
// CHECK:         %[[SHIFT:.*]] = vector.broadcast %c4_i8 : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.shrui %[[LINE]], %[[SHIFT]]
// CHECK-NEXT:    %[[TO:.*]] = llvm.getelementptr %{{.*}}[%c512_i64]
// CHECK-NEXT:    llvm.store %[[HIGH]], %[[TO]]
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         llvm.load %{{.*}} -> vector<16xf16>
// CHECK:         %[[MINIMUM:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK:         %[[WIDE:.*]] = arith.extf %[[MINIMUM]]
// CHECK:         %[[OFFSET:.*]] = arith.addi %{{.*}}, %c32_i64
// CHECK-NEXT:    %[[TO:.*]] = llvm.getelementptr %{{.*}}[%[[OFFSET]]]
// CHECK-NEXT:    llvm.store %[[WIDE]], %[[TO]]
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c6_i64
// CHECK:           %[[SUM:.*]] = arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NEXT:      %[[SCALED:.*]] = vector.fma %[[SUM]]
// CHECK-NEXT:      vector.fma %{{.*}}, %{{.*}}, %[[SCALED]]
// CHECK-LABEL: func.func @q4_1_plan
rt.kernel @q4_1(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q4_1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The same layout as 8-bit integers with f16 scales.
// CHECK-LABEL: func.func @q8_0_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c8704_i64
// CHECK:         arith.muli %{{.*}}, %c1088_i64
// CHECK:         llvm.getelementptr %{{.*}}[%c64_i64]
// CHECK:         %[[SCALE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[SCALE]]
// CHECK:         llvm.store %[[WIDE]]
// CHECK-LABEL: func.func @q8_0_plan
rt.kernel @q8_0(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q8_0>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// A unit is 256 deep: scale and minimum in f16, integers of 6 bits for its 8 blocks, 8 steps of 512 bytes. Lower four
// bits of scale and minimum share a byte, the upper two of both lie behind those of all blocks; minima are subtracted.
// CHECK-LABEL: func.func @q4_k_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c4608_i64
// CHECK:         arith.remui %{{.*}}, %c8_i64
// CHECK:         arith.muli %{{.*}}, %c4608_i64
// CHECK:         %[[STEP:.*]] = arith.muli %{{.*}}, %c512_i64
// CHECK:         arith.addi %c512_i64, %[[STEP]]
// CHECK:         %[[LINE:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[MASK:.*]] = vector.broadcast %c15_i8 : i8 to vector<64xi8>
// CHECK:         %[[LOW:.*]] = arith.andi %[[LINE]], %[[MASK]]
// CHECK:         llvm.store %[[LOW]]
// CHECK:         %[[SHIFT:.*]] = vector.broadcast %c4_i8 : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.shrui %[[LINE]], %[[SHIFT]]
// CHECK-NEXT:    %[[TO:.*]] = llvm.getelementptr %{{.*}}[%c512_i64]
// CHECK-NEXT:    llvm.store %[[HIGH]], %[[TO]]
// CHECK:         %[[WHOLE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK:         arith.addi %c128_i64, %{{.*}}
// CHECK:         arith.addi %c8_i64, %{{.*}}
// CHECK:         %[[SCALE:.*]] = arith.extf %[[WHOLE]]
// CHECK:         %[[LOW:.*]] = arith.extui %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK:         %[[HIGH:.*]] = arith.shrui %{{.*}}, %{{.*}} : vector<16xi32>
// CHECK:         %[[OF_BLOCK:.*]] = arith.sitofp
// CHECK-NEXT:    arith.mulf %[[SCALE]], %[[OF_BLOCK]]
// CHECK:         arith.negf
// CHECK-LABEL: func.func @q4_k_plan
rt.kernel @q4_k(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q4_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Steps of 640 bytes: the fifth bits of all eight words lie in one line.
// CHECK-LABEL: func.func @q5_k_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c5632_i64
// CHECK:         arith.remui %{{.*}}, %c8_i64
// CHECK:         arith.muli %{{.*}}, %c5632_i64
// CHECK:         %[[STEP:.*]] = arith.muli %{{.*}}, %c640_i64
// CHECK:         arith.addi %c512_i64, %[[STEP]]
// CHECK:         llvm.getelementptr %{{.*}}[%c256_i64]
// CHECK-NEXT:    %[[FIFTH:.*]] = llvm.load %{{.*}} -> vector<64xi8>
// CHECK:         %[[BY:.*]] = vector.broadcast %c4_i8{{.*}} : i8 to vector<64xi8>
// CHECK-NEXT:    %[[MOVED:.*]] = arith.shli %[[FIFTH]], %[[BY]]
// CHECK:         %[[MASK:.*]] = vector.broadcast %c16_i8{{.*}} : i8 to vector<64xi8>
// CHECK:         %[[HIGH:.*]] = arith.andi %[[MOVED]], %[[MASK]]
// CHECK:         %[[ELEMENT:.*]] = arith.ori %{{.*}}, %[[HIGH]]
// CHECK:         llvm.store %[[ELEMENT]]
// CHECK:         arith.negf
// CHECK-LABEL: func.func @q5_k_plan
rt.kernel @q5_k(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q5_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Blocks of 16 with signed 8-bit scales, two in a step of 768 bytes; no minima.
// CHECK-LABEL: func.func @q6_k_run
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:         arith.muli %{{.*}}, %c6720_i64
// CHECK:         arith.remui %{{.*}}, %c8_i64
// CHECK:         arith.muli %{{.*}}, %c6720_i64
// CHECK:         %[[STEP:.*]] = arith.muli %{{.*}}, %c768_i64
// CHECK:         arith.addi %c576_i64, %[[STEP]]
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
// CHECK:         arith.muli %{{.*}}, %c2_i64
// CHECK:         %[[WHOLE:.*]] = llvm.load %{{.*}} -> vector<16xf16>
// CHECK:         %[[SCALE:.*]] = arith.extf %[[WHOLE]]
// CHECK:         %[[INTEGER:.*]] = arith.extsi %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK-NEXT:    %[[OF_BLOCK:.*]] = arith.sitofp %[[INTEGER]]
// CHECK-NEXT:    arith.mulf %[[SCALE]], %[[OF_BLOCK]]
// CHECK-NOT:     arith.negf
// CHECK-LABEL: func.func @q6_k_plan
rt.kernel @q6_k(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q6_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The same layout as E2M1 with E8M0 scales.
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
// CHECK-LABEL: func.func @mxfp4_plan
rt.kernel @mxfp4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<mxfp4>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
