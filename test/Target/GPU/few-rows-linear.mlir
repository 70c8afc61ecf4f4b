// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s

// One row has blocks of its own, and so have up to four. Without rows there are none: a block would read the first row.
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "((2 floordiv (rows + 1)) ceildiv 2 + (1 floordiv (rows + 1)) * -1) * 2"
// CHECK-LABEL: gpu.func @itx_k0_1
// CHECK-SAME: itx.grid = "((5 floordiv (rows + 1)) ceildiv 5 + ((2 floordiv (rows + 1)) ceildiv 2) * -1) * 2"
rt.kernel @rows(%x: tensor<?x256xf16> {nn.sizes = ["rows", ""]}, %w: tensor<64x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x256xf16> to tensor<?x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x256xf32>, tensor<64x256xf16>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}

// CHECK-LABEL: gpu.func @itx_k1_0(
// CHECK-SAME: itx.grid = "0"
rt.kernel @no_rows(%x: tensor<0x256xf16>, %w: tensor<64x256xf16> {rt.layout = #rt.row_major}) -> tensor<0x64xf32>
    attributes {root = #nn.root<linear>, sizes = []} {
  %0 = arith.extf %x : tensor<0x256xf16> to tensor<0x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<0x256xf32>, tensor<64x256xf16>) -> tensor<0x64xf32>
  rt.yield %1 : tensor<0x64xf32>
}

// A convolution of no images has no blocks either.
// CHECK-LABEL: gpu.func @itx_k2_0(
// CHECK-SAME: itx.grid = "0"
rt.kernel @no_images(%x: tensor<0x4x4x64xf16>, %w: tensor<32x64xf16> {rt.layout = #rt.row_major}) -> tensor<0x4x4x32xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %0 = arith.extf %x : tensor<0x4x4x64xf16> to tensor<0x4x4x64xf32>
  %1 = nn.conv %0, %w {window = array<i64: 1, 1>, precision = f16} : (tensor<0x4x4x64xf32>, tensor<32x64xf16>) -> tensor<0x4x4x32xf32>
  rt.yield %1 : tensor<0x4x4x32xf32>
}
