// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Keys of logits, the largest by vectors of 16.
// CHECK-LABEL: func.func @route_run
// CHECK: vector.reduction <maxsi>, %{{.*}} : vector<16xi32> into i32
// CHECK: vector.reduction <minsi>, %{{.*}} : vector<16xi32> into i32
// CHECK-LABEL: func.func @route_plan
rt.kernel @route(%l: tensor<?x20xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<route>, sizes = ["s0"]} {
  %i, %w = nn.route %l {normalize, top_k = 2 : i64} : (tensor<?x20xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}

// -----

// A tile of eight rows and one of a single row have the same order of additions: one multiply-add of an element after
// the other. Finishing tiles add to the result.
// CHECK-LABEL: func.func @experts_run
// CHECK: iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-16: vector.fma
// CHECK: iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>)  : i64 {
// CHECK-COUNT-2: vector.fma
// CHECK-NOT: vector.fma
// CHECK: scf.yield
// CHECK-LABEL: func.func @experts_plan
rt.kernel @experts(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                   %g: tensor<8x2x96x64xf32> {rt.layout = #rt.layout<panels, 32>}, %d: tensor<8x64x96xf32> {rt.layout = #rt.layout<panels, 32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x96x64xf32>, tensor<8x64x96xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Codes and rounded activations: products of bytes for few rows and for many, in both products; panels of the first
// write records of 8-bit codes.
// CHECK-LABEL: func.func @codes_run
// CHECK: llvm.intr.prefetch
// CHECK: llvm.x86.avx512.pmaddubs.w.512
// CHECK-NOT: memref
// CHECK: vector.reduction <maxsi>
// CHECK: arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK: llvm.x86.avx512.pmaddubs.w.512
// CHECK-LABEL: func.func @codes_plan
rt.kernel @codes(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                 %g: tensor<8x2x96x64xf32> {rt.layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>}, %d: tensor<8x64x96xf32> {rt.layout = #rt.layout<panels, 32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  %0 = nn.experts %r, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x96x64xf32>, tensor<8x64x96xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
