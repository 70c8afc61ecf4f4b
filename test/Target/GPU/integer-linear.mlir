// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx90a | FileCheck %s --check-prefixes=CHECK,GFX90A
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx1100 | FileCheck %s --check-prefixes=CHECK,GFX1100

// A linear with quantized input: the first launch quantizes rows to scratch, the others read them there. Integers are
// multiplied by matrix instructions, a step of 32 at a time, and its sums are scaled. NVIDIA's begin with the bits of a
// float, to which they are added.

// CHECK: gpu.func @itx_k0_0
// CHECK-SAME: itx.scratch = "((rows * 288) ceildiv 64) * 64"
// CHECK: gpu.shuffle
// CHECK: arith.trunci %{{.*}} : vector<{{[48]}}xi32> to vector<{{[48]}}xi8>
// CHECK: gpu.func @itx_k0_1
// CHECK: arith.sitofp %{{.*}} : vector<4xi8> to vector<4xf32>
// CHECK: gpu.func @itx_k0_3
// CHECK-SAME: itx.scratch = "0"
// SM80: %[[FLOAT:.*]] = arith.constant 1262485504 : i32
// SM80: %[[SUMS:.*]] = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k32.row.col.s8"({{.*}}, %[[FLOAT]], %[[FLOAT]], %[[FLOAT]], %[[FLOAT]])
// SM80: arith.bitcast %{{.*}} : i32 to f32
// SM80: arith.subf
// SM80: arith.mulf
// SM80: math.fma
// GFX90A: llvm.amdgcn.mfma.i32.16x16x16i8
// GFX90A: llvm.amdgcn.mfma.i32.16x16x16i8
// GFX942: llvm.amdgcn.mfma.i32.16x16x32.i8
// GFX942: arith.sitofp %{{.*}} : vector<4xi32> to vector<4xf32>
// GFX1100: llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v4i32
rt.kernel @steps(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]},
    %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x8xf32>)
  %0 = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x256xi8>, tensor<?x8xf32>) -> tensor<?x256xf32>
  %1 = nn.linear %0, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}

// Halves of a step have scales of their own: shorter instructions multiply them, or longer ones with zeros in one factor.
// CHECK: gpu.func @itx_k1_3
// SM80-NOT: m16n8k32
// SM80: llvm.nvvm.mma.m16n8k16.row.col.s8
// GFX90A: llvm.amdgcn.mfma.i32.16x16x16i8
// GFX942: arith.select %{{.*}} : i64
// GFX942: llvm.amdgcn.mfma.i32.16x16x32.i8
// GFX1100: llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v4i32
rt.kernel @halves(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]},
    %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e4m3, 16, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %0 = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %1 = nn.linear %0, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
