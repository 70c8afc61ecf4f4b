// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @sort
func.func @sort(%x: tensor<?x8xf16>, %i: tensor<3x?xi8>) {
  // CHECK: nn.top_k %{{.+}} {axis = 1 : i64, k = 5 : i64, smallest} : (tensor<?x8xf16>) -> (tensor<?x5xf16>, tensor<?x5xi64>)
  // CHECK: nn.sort %{{.+}} {axis = 1 : i64, descending} : (tensor<3x?xi8>) -> (tensor<3x?xi8>, tensor<3x?xi64>)
  %v, %p = nn.top_k %x {axis = 1, k = 5, smallest} : (tensor<?x8xf16>) -> (tensor<?x5xf16>, tensor<?x5xi64>)
  %w, %q = nn.sort %i {axis = 1, descending} : (tensor<3x?xi8>) -> (tensor<3x?xi8>, tensor<3x?xi64>)
  return
}
