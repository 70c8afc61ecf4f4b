// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @conv
func.func @conv(%image: tensor<?x224x224x16xf32>, %w: tensor<32x144xf32>, %bias: tensor<32xf32>, %speech: tensor<2x?x80xf32>, %k: tensor<64x240xf32>, %narrow: tensor<16x36xbf16>) {
  // CHECK: nn.conv %{{.*}}, %{{.*}}, %{{.*}} {pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 2, 2>, window = array<i64: 3, 3>} : (tensor<?x224x224x16xf32>, tensor<32x144xf32>, tensor<32xf32>) -> tensor<?x112x112x32xf32>
  %0 = nn.conv %image, %w, %bias {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<?x224x224x16xf32>, tensor<32x144xf32>, tensor<32xf32>) -> tensor<?x112x112x32xf32>
  // CHECK: nn.conv %{{.*}}, %{{.*}} {dilations = array<i64: 2>, window = array<i64: 3>} : (tensor<2x?x80xf32>, tensor<64x240xf32>) -> tensor<2x?x64xf32>
  %1 = nn.conv %speech, %k {window = array<i64: 3>, dilations = array<i64: 2>} : (tensor<2x?x80xf32>, tensor<64x240xf32>) -> tensor<2x?x64xf32>
  // CHECK: nn.conv %{{.*}}, %{{.*}} {groups = 4 : i64, precision = bf16, window = array<i64: 3, 3>} : (tensor<?x224x224x16xf32>, tensor<16x36xbf16>) -> tensor<?x222x222x16xf32>
  %2 = nn.conv %image, %narrow {window = array<i64: 3, 3>, groups = 4, precision = bf16} : (tensor<?x224x224x16xf32>, tensor<16x36xbf16>) -> tensor<?x222x222x16xf32>
  // CHECK: nn.conv %{{.*}}, %{{.*}} {output_pads = array<i64: 1, 0>, strides = array<i64: 2, 2>, transposed, window = array<i64: 3, 3>} : (tensor<?x224x224x16xf32>, tensor<32x144xf32>) -> tensor<?x450x449x32xf32>
  %3 = nn.conv %image, %w {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, transposed, output_pads = array<i64: 1, 0>} : (tensor<?x224x224x16xf32>, tensor<32x144xf32>) -> tensor<?x450x449x32xf32>
  return
}
