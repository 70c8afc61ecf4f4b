// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver4" --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" --split-input-file | FileCheck %s --check-prefix=AVX2
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64+dotprod" --split-input-file | FileCheck %s --check-prefix=SDOT

// With known scales sums of integers go over a whole window: the loop over steps of 32 channels lies in those over rows
// and columns, all carry 8 x 2 sums, and these become floats behind them. A result that the next kernel multiplies is
// stored in bytes.
// CHECK-LABEL: func.func @known_run
// CHECK:         llvm.store {{.*}} : vector<8xi8>
// CHECK:         vector.reduction <add>
// CHECK:         arith.muli %{{.*}}, %c-128_i32
// CHECK:         scf.for {{.*}} -> (i32, i32, i32, i32, i32, i32, i32, i32)
// CHECK:         %[[SUMS:.*]]:16 = scf.for %{{.*}} = %c0_i64 to %c3_i64
// CHECK-NEXT:      %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c3_i64
// CHECK-NOT:         arith.sitofp
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} step %c1_i64
// CHECK-COUNT-16:      llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:         arith.sitofp %[[SUMS]]#0 : vector<16xi32> to vector<16xf32>
// CHECK:         llvm.store {{.*}} : vector<16xi8>
// CHECK-LABEL: func.func @known_plan
// AVX2-LABEL: func.func @known_run
// AVX2-NOT:     pmadd.ub.sw
// AVX2:         llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-LABEL: func.func @known_plan
// SDOT-LABEL: func.func @known_run
// SDOT:         llvm.call_intrinsic "llvm.aarch64.neon.sdot"
// SDOT-LABEL: func.func @known_plan
rt.kernel @known(%x: tensor<1x14x14x64xf32>, %f: tensor<64xf32>, %w: tensor<64x576xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f32, 0, axis = 1>>}, %g: tensor<64xf32>)
    -> (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>) attributes {root = #nn.root<conv>, sizes = []} {
  %c, %s = nn.quantize %x factors %f {format = #nn.block_format<i8, f32, 0, axis = 3>, unit_scale} : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 3>} : (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>) -> tensor<1x14x14x64xf32>
  %y = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x14x14x64xf32>, tensor<64x576xf32>) -> tensor<1x14x14x64xf32>
  %d, %t = nn.quantize %y factors %g {format = #nn.block_format<i8, f32, 0, axis = 3>, unit_scale} : (tensor<1x14x14x64xf32>, tensor<64xf32>) -> (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>)
  rt.yield %d, %t : tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>
}

// -----

// Scales that are found at the call differ from position to position: integers are scaled for each of a window.
// CHECK-LABEL: func.func @found_run
// CHECK:         vector.reduction <maxsi>
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c3_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c3_i64
// CHECK:             %[[SUMS:.*]]:16 = scf.for %{{.*}} step %c1_i64
// CHECK:               llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:             arith.sitofp %[[SUMS]]#0 : vector<16xi32> to vector<16xf32>
// CHECK:             vector.fma
// CHECK-LABEL: func.func @found_plan
rt.kernel @found(%x: tensor<1x14x14x64xf32>, %w: tensor<64x576xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> tensor<1x14x14x64xf32> attributes {root = #nn.root<conv>, sizes = []} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x14x14x64xf32>) -> (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x14x14x64xi8>, tensor<1x14x14x1xf32>) -> tensor<1x14x14x64xf32>
  %y = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x14x14x64xf32>, tensor<64x576xf32>) -> tensor<1x14x14x64xf32>
  rt.yield %y : tensor<1x14x14x64xf32>
}

// -----

// Rows that are no whole steps are multiplied by words of four channels.
// CHECK-LABEL: func.func @words_run
// CHECK:         %{{.*}}:16 = scf.for %[[WORD:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[OF_PANEL:.*]] = arith.addi %{{.*}}, %[[WORD]]
// CHECK:           arith.divui %[[OF_PANEL]], %c8_i64
// CHECK:           arith.remui %[[OF_PANEL]], %c8_i64
// CHECK-COUNT-2:   llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-LABEL: func.func @words_plan
rt.kernel @words(%x: tensor<1x14x14x12xf32>, %w: tensor<64x108xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> tensor<1x14x14x64xf32> attributes {root = #nn.root<conv>, sizes = []} {
  %c, %t = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x14x14x12xf32>) -> (tensor<1x14x14x12xi8>, tensor<1x14x14x1xf32>)
  %r = nn.dequantize %c, %t {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x14x14x12xi8>, tensor<1x14x14x1xf32>) -> tensor<1x14x14x12xf32>
  %y = nn.conv %r, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<1x14x14x12xf32>, tensor<64x108xf32>) -> tensor<1x14x14x64xf32>
  rt.yield %y : tensor<1x14x14x64xf32>
}
