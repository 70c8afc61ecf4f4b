// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_120a 2>&1 | FileCheck %s --check-prefixes=CHECK,SM120A,NATIVE
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx950 2>&1 | FileCheck %s --check-prefixes=CHECK,GFX950,NATIVE
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_100a 2>&1 | FileCheck %s --check-prefixes=CHECK,SM100A,WIDE
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 2>&1 | FileCheck %s --check-prefixes=CHECK,GFX942,WIDE

// Linears of E2M1 by E2M1: the first launch quantizes rows to scratch, each block with its scale; where instructions
// take scales, they multiply elements of 4 bits by them. Elsewhere elements times scales lie in scratch in 16 bits.

// CHECK: gpu.func @itx_k0_0
// 256 elements of 4 bits and 8 scales; or 16 bits each.
// NATIVE-SAME: itx.scratch = "((rows * 136) ceildiv 64) * 64"
// WIDE-SAME: itx.scratch = "rows * 512"
// NATIVE: arith.trunci %{{.*}} : vector<4xi32> to vector<4xi8>
// WIDE: arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
// Up to 16 rows: of each step the scales in bytes 0 and 1, or 2 and 3; those of columns of two lanes.
// CHECK: gpu.func @itx_k0_3
// SM120A-DAG: %[[ZERO:.*]] = arith.constant 0 : i16
// SM120A-DAG: %[[TWO:.*]] = arith.constant 2 : i16
// SM120A: llvm.call_intrinsic "llvm.nvvm.mma.block.scale.m16n8k64.row.col.mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0"({{.*}}) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16)
// GFX950: llvm.call_intrinsic "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4.v4i32.v4i32"
// SM100A-NOT: e2m1
// SM100A: llvm.nvvm.mma.m16n8k16.row.col.bf16
// GFX942: llvm.amdgcn.mfma.f32.16x16x16bf16.1k
rt.kernel @powers(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]},
    %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e8m0, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %q, %s = nn.quantize %x {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi4>, tensor<?x8xi8>)
  %0 = nn.dequantize %q, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x256xi4>, tensor<?x8xi8>) -> tensor<?x256xf32>
  %1 = nn.linear %0, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}

// CHECK: gpu.func @itx_k1_0
// Scales of blocks in a byte for 16 features, and one of each row in f32. f16 holds each element times its scale.
// SM120A-SAME: itx.scratch = "((rows * 148) ceildiv 64) * 64"
// GFX950-SAME: itx.scratch = "((rows * 516) ceildiv 64) * 64"
// WIDE-SAME: itx.scratch = "((rows * 516) ceildiv 64) * 64"
// GFX950: arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
// WIDE: arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
// CHECK: gpu.func @itx_k1_3
// SM120A: llvm.nvvm.mma.block.scale.m16n8k64.row.col.mxf4nvf4.scale.4x.f32.e2m1.e2m1.f32.ue4m3
// GFX950: llvm.amdgcn.mfma.f32.16x16x32.f16
// SM100A-NOT: e2m1
// SM100A: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// GFX942: llvm.amdgcn.mfma.f32.16x16x16f16
rt.kernel @numbers(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]},
    %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e2m1, e4m3, 16, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %q, %s, %t = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi4>, tensor<?x16xi8>, tensor<?x1xf32>)
  %0 = nn.dequantize %q, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<?x256xi4>, tensor<?x16xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %1 = nn.linear %0, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
