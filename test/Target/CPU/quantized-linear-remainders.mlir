// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Blocks of 32 activations have a scale each. Of 72 features the last 8 are quantized in a buffer whose rest is zero,
// so that a record's 32 values are written; its panel has three steps (3 x 576 bytes).
// CHECK-LABEL: func.func @depth_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK-COUNT-2:   llvm.load {{.*}} -> vector<16xf32>
// CHECK:           vector.reduction <maxsi>
// CHECK:         scf.for %{{.*}} = %c2_i64 to %c3_i64 step %c1_i64
// CHECK:           %[[REST:.*]] = arith.subi %c72_i64, %{{.*}}
// CHECK:           %[[COUNT:.*]] = arith.maxsi %{{.*}}, %c0_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %[[VECTORS:.*]] step %c16_i64
// CHECK:           scf.for %{{.*}} = %[[VECTORS]] to %c32_i64 step %c16_i64
// CHECK-NEXT:        %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK:             llvm.store %[[ZERO]]
// CHECK:           scf.for %{{.*}} = %[[VECTORS]] to %[[COUNT]] step %c1_i64
// CHECK:             llvm.store %{{.*}} : f32
// CHECK:         arith.muli %{{.*}}, %c1728_i64
// CHECK-LABEL: func.func @depth_plan
rt.kernel @depth(%x: tensor<?x72xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x72xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x72xf32>) -> (tensor<?x72xi8>, tensor<?x3xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x72xi8>, tensor<?x3xf32>) -> tensor<?x72xf32>
  %0 = nn.linear %r, %w : (tensor<?x72xf32>, tensor<64x72xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The second panel has 8 of 40 columns.
// CHECK-LABEL: func.func @columns_run
// CHECK:         %[[REST:.*]] = arith.subi %c40_i64, %{{.*}}
// CHECK:         %[[COUNT:.*]] = arith.minsi %[[REST]], %c32_i64
// CHECK:         %[[IS_WHOLE:.*]] = arith.cmpi eq, %[[COUNT]], %c32_i64
// CHECK:         scf.if %[[IS_WHOLE]]
// CHECK-COUNT-2:   llvm.store {{.*}} : vector<16xf32>
// CHECK:         } else {
// CHECK:           scf.for %{{.*}} = %{{.*}} to %[[COUNT]] step %c1_i64
// CHECK:             llvm.store {{.*}} : f32
rt.kernel @columns(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<40x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x40xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  rt.yield %0 : tensor<?x40xf32>
}
