// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s

// A convolution is a product of rows that are nowhere in memory: windows, zero outside of the image. Elements of 64
// channels of one position are loaded together.
// CHECK: gpu.func @itx_k0_0({{.*}}itx.grid = "((n * 196) ceildiv 16)
// CHECK: scf.if
// CHECK: llvm.load {{.*}} -> vector<8xf16>
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
rt.kernel @window(%x: tensor<?x14x14x64xf16> {nn.sizes = ["n", "", "", ""]}, %w: tensor<128x576xf16>)
    -> (tensor<?x14x14x128xf16> {nn.sizes = ["n", "", "", ""]}) attributes {root = #nn.root<conv>, sizes = ["n"]} {
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, precision = f16}
      : (tensor<?x14x14x64xf16>, tensor<128x576xf16>) -> tensor<?x14x14x128xf16>
  rt.yield %y : tensor<?x14x14x128xf16>
}

// Windows of three channels, and of strides: each element is read by itself.
// CHECK: gpu.func @itx_k1_0
// CHECK: llvm.load {{.*}} -> f32
// CHECK: math.fma
rt.kernel @image(%x: tensor<2x32x32x3xf32>, %w: tensor<64x147xf32>) -> tensor<2x13x13x64xf32>
    attributes {root = #nn.root<conv>, sizes = []} {
  %y = nn.conv %x, %w {window = array<i64: 7, 7>, strides = array<i64: 2, 2>} : (tensor<2x32x32x3xf32>, tensor<64x147xf32>) -> tensor<2x13x13x64xf32>
  rt.yield %y : tensor<2x13x13x64xf32>
}
