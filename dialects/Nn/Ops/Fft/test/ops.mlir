// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @fft
func.func @fft(%x: tensor<?x400x1xf32>, %y: tensor<3x?x6x2xbf16>) {
  // CHECK: nn.fft %{{.+}} {axis = 1 : i64} : (tensor<?x400x1xf32>) -> tensor<?x400x2xf32>
  %0 = nn.fft %x {axis = 1} : (tensor<?x400x1xf32>) -> tensor<?x400x2xf32>
  // CHECK: nn.fft %{{.+}} {axis = 1 : i64, onesided} : (tensor<?x400x1xf32>) -> tensor<?x201x2xf32>
  %1 = nn.fft %x {axis = 1, onesided} : (tensor<?x400x1xf32>) -> tensor<?x201x2xf32>
  // CHECK: nn.fft %{{.+}} {axis = 1 : i64, inverse} : (tensor<3x?x6x2xbf16>) -> tensor<3x?x6x2xbf16>
  %2 = nn.fft %y {axis = 1, inverse} : (tensor<3x?x6x2xbf16>) -> tensor<3x?x6x2xbf16>
  // CHECK: nn.fft %{{.+}} {axis = 2 : i64, inverse, length = 11 : i64, onesided} : (tensor<3x?x6x2xbf16>) -> tensor<3x?x11x1xbf16>
  %3 = nn.fft %y {axis = 2, inverse, onesided, length = 11} : (tensor<3x?x6x2xbf16>) -> tensor<3x?x11x1xbf16>
  return
}
