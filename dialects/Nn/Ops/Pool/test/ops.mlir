// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @pool
func.func @pool(%x: tensor<?x112x112x64xf32>, %speech: tensor<2x?x80xbf16>) {
  // CHECK: nn.pool <max>, %{{.*}} {pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 2, 2>, window = array<i64: 3, 3>} : (tensor<?x112x112x64xf32>) -> tensor<?x56x56x64xf32>
  %0 = nn.pool <max>, %x {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>} : (tensor<?x112x112x64xf32>) -> tensor<?x56x56x64xf32>
  // CHECK: nn.pool <max>, %{{.*}} {window = array<i64: 2, 2>, with_indices} : (tensor<?x112x112x64xf32>) -> (tensor<?x111x111x64xf32>, tensor<?x111x111x64xi64>)
  %1, %2 = nn.pool <max>, %x {window = array<i64: 2, 2>, with_indices} : (tensor<?x112x112x64xf32>) -> (tensor<?x111x111x64xf32>, tensor<?x111x111x64xi64>)
  // CHECK: nn.pool <average>, %{{.*}} {beyond_high = array<i64: 1, 0>, count_include_pad, window = array<i64: 4, 4>} : (tensor<?x112x112x64xf32>) -> tensor<?x110x109x64xf32>
  %3 = nn.pool <average>, %x {window = array<i64: 4, 4>, beyond_high = array<i64: 1, 0>, count_include_pad} : (tensor<?x112x112x64xf32>) -> tensor<?x110x109x64xf32>
  // CHECK: nn.pool <lp>, %{{.*}} {dilations = array<i64: 2>, p = 3 : i64, window = array<i64: 5>} : (tensor<2x?x80xbf16>) -> tensor<2x?x80xbf16>
  %4 = nn.pool <lp>, %speech {window = array<i64: 5>, dilations = array<i64: 2>, p = 3} : (tensor<2x?x80xbf16>) -> tensor<2x?x80xbf16>
  return
}
