// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s --check-prefix=AVX512
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver5" | FileCheck %s --check-prefix=VNNI
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s --check-prefix=AVX2
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v2" | FileCheck %s --check-prefix=SSE
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64" | FileCheck %s --check-prefix=PLAIN
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64" | FileCheck %s --check-prefix=PLAIN

// Four products of bytes in a lane: one instruction, two, or a widened product for each byte.
// AVX512-LABEL: func.func @i4_run
// AVX512:         %[[PAIRS:.*]] = llvm.call_intrinsic "llvm.x86.avx512.pmaddubs.w.512"{{.*}} -> vector<32xi16>
// AVX512:         %[[FOUR:.*]] = llvm.call_intrinsic "llvm.x86.avx512.pmaddw.d.512"(%[[PAIRS]], {{.*}} -> vector<16xi32>
// AVX512-NEXT:    arith.addi %{{.*}}, %[[FOUR]]
// VNNI-LABEL:   func.func @i4_run
// VNNI:           llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %{{.*}}, %{{.*}}) : (vector<16xi32>, vector<64xi8>, vector<64xi8>) -> vector<16xi32>
// AVX2-LABEL:   func.func @i4_run
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// SSE-LABEL:    func.func @i4_run
// SSE:            llvm.call_intrinsic "llvm.x86.ssse3.pmadd.ub.sw.128"
// SSE:            llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"
// PLAIN-LABEL:  func.func @i4_run
// PLAIN-NOT:      llvm.call_intrinsic
// PLAIN:          %[[WORD:.*]] = vector.bitcast %{{.*}} : vector<16xi8> to vector<4xi32>
// PLAIN-COUNT-4:  arith.muli %{{.*}}, %{{.*}} : vector<4xi32>
// PLAIN-NOT:      llvm.call_intrinsic
// PLAIN-LABEL:  func.func @i4_plan
rt.kernel @i4(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// Of elements of 8 bits pmaddubsw takes the magnitude; the sign goes over to the activation by an instruction, where
// there is one.
// AVX2-LABEL:   func.func @i8_run
// AVX2:           %[[LEFT:.*]] = math.absi %[[ELEMENT:.*]] : vector<32xi8>
// AVX2:           %[[RIGHT:.*]] = llvm.call_intrinsic "llvm.x86.avx2.psign.b"(%{{.*}}, %[[ELEMENT]])
// AVX2:           llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"(%[[LEFT]], %[[RIGHT]])
// SSE-LABEL:    func.func @i8_run
// SSE:            llvm.call_intrinsic "llvm.x86.ssse3.psign.b.128"
// SSE:            llvm.call_intrinsic "llvm.x86.ssse3.pmadd.ub.sw.128"
rt.kernel @i8(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
