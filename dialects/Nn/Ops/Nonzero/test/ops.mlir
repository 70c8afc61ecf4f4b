// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @nonzero
func.func @nonzero(%x: tensor<?x8xf16>, %m: tensor<3x5xi1>) {
  // CHECK: nn.nonzero %{{.+}} : (tensor<?x8xf16>) -> (tensor<?x2xi64>, tensor<i64>)
  %0:2 = nn.nonzero %x : (tensor<?x8xf16>) -> (tensor<?x2xi64>, tensor<i64>)
  // CHECK: nn.nonzero %{{.+}} : (tensor<3x5xi1>) -> (tensor<15x2xi64>, tensor<i64>)
  %1:2 = nn.nonzero %m : (tensor<3x5xi1>) -> (tensor<15x2xi64>, tensor<i64>)
  return
}
