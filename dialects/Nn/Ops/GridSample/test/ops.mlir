// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @grid_sample
func.func @grid_sample(%x: tensor<?x8x8x4xf16>, %g: tensor<?x5x?x2xf32>) {
  // CHECK: nn.grid_sample <cubic>, <reflection>, %{{.+}}, %{{.+}} {corners} : (tensor<?x8x8x4xf16>, tensor<?x5x?x2xf32>) -> tensor<?x5x?x4xf16>
  %0 = nn.grid_sample <cubic>, <reflection>, %x, %g {corners} : (tensor<?x8x8x4xf16>, tensor<?x5x?x2xf32>) -> tensor<?x5x?x4xf16>
  return
}
