// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Quantized weights and activations: products of bytes for few rows and for many, in both matmuls; panels of the first
// write records of 8-bit values.
// CHECK-LABEL: func.func @quantized_run
// CHECK: llvm.intr.prefetch
// CHECK: llvm.x86.avx512.pmaddubs.w.512
// CHECK-NOT: memref
// CHECK: vector.reduction <maxsi>
// CHECK: arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK: llvm.x86.avx512.pmaddubs.w.512
// CHECK-LABEL: func.func @quantized_plan
rt.kernel @quantized(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                 %g: tensor<8x2x96x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>}, %d: tensor<8x64x96xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  %0 = nn.experts %r, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x96x64xf32>, tensor<8x64x96xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Of 40 columns the second panel has 8: the record's other activations are set to zero. A row's records are two steps
// of 40 bytes.
// CHECK-LABEL: func.func @remainder_run
// CHECK:         scf.for %[[C:.*]] = %c0_i64 to %c32_i64 step %c16_i64
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK-NEXT:      %[[TO:.*]] = llvm.getelementptr %{{.*}}[%[[C]]]
// CHECK-NEXT:      llvm.store %[[ZERO]], %[[TO]]
// CHECK:         %[[REST:.*]] = arith.subi %c40_i64, %{{.*}}
// CHECK:         arith.minsi %[[REST]], %c32_i64
// CHECK:         vector.reduction <maxsi>
// CHECK:         arith.muli %{{.*}}, %c80_i64
// CHECK-LABEL: func.func @remainder_plan
// CHECK:         "llvm.intr.smul.with.overflow"(%{{.*}}, %c80_i64)
rt.kernel @remainder(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x40x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>}, %d: tensor<8x64x40xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  %0 = nn.experts %r, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x40x64xf32>, tensor<8x64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// An input that is not quantized: weights of gate and up are dequantized in scratch, and those of down too.
// CHECK-LABEL: func.func @dequantized_run
// CHECK-NOT:     llvm.call_intrinsic
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:         arith.subi %{{.*}} : vector<16xi32>
// CHECK:         vector.fma
// CHECK-NOT:     llvm.call_intrinsic
// CHECK-LABEL: func.func @dequantized_plan
rt.kernel @dequantized(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x64x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>}, %d: tensor<8x64x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x64x64xf32>, tensor<8x64x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
