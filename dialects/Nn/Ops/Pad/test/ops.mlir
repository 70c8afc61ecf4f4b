// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<?x8xf16>, %i: tensor<3xi8>) {
  // CHECK: nn.pad <reflect>, %{{.+}} {high = array<i64: 0, 3>, low = array<i64: 1, 2>} : (tensor<?x8xf16>) -> tensor<?x13xf16>
  // CHECK: nn.pad <constant>, %{{.+}} {high = array<i64: -1>, low = array<i64: 2>, value = 7 : i8} : (tensor<3xi8>) -> tensor<4xi8>
  %0 = nn.pad <reflect>, %x {low = array<i64: 1, 2>, high = array<i64: 0, 3>} : (tensor<?x8xf16>) -> tensor<?x13xf16>
  %1 = nn.pad <constant>, %i {low = array<i64: 2>, high = array<i64: -1>, value = 7 : i8} : (tensor<3xi8>) -> tensor<4xi8>
  return
}
