// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_89 2>&1 | FileCheck %s --check-prefixes=CHECK,SM89
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a 2>&1 | FileCheck %s --check-prefixes=CHECK,SM90A
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 2>&1 | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx950 2>&1 | FileCheck %s --check-prefixes=CHECK,GFX950
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx1201 2>&1 | FileCheck %s --check-prefixes=CHECK,GFX1201
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 2>&1 | FileCheck %s --check-prefixes=CHECK,SM80

// A linear of E4M3 by E4M3: the first launch quantizes rows to scratch, each with its scale; the others multiply elements
// and give sums both scales.

// CHECK: gpu.func @itx_k0_0
// CHECK-SAME: itx.scratch = "((rows * 260) ceildiv 64) * 64"
// CHECK: arith.trunci %{{.*}} : vector<{{[48]}}xi32> to vector<{{[48]}}xi8>
// The bit pattern of -0 is a NaN of CDNA 3.
// GFX942: %[[ZERO:.*]] = arith.cmpi eq, %{{.*}} : vector<4xi8>
// GFX942: arith.select %[[ZERO]]
// Up to 16 rows.
// CHECK: gpu.func @itx_k0_3
// SM89: llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32
// SM90A-NOT: e4m3.e4m3
// SM90A: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// GFX942: llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8
// GFX950: llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8
// GFX1201: llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32
// Elements are decoded where there are no instructions.
// SM80-NOT: e4m3
// SM80: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// More rows.
// CHECK: gpu.func @itx_k0_4
// SM90A: wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {{.*}}p, 1, 1;}
rt.kernel @floats(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]},
    %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<e4m3, f32, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %q, %s = nn.quantize %x {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %0 = nn.dequantize %q, %s {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %1 = nn.linear %0, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
