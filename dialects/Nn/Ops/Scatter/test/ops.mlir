// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<4x100x?xf32>, %i: tensor<4x?x?xi64>, %u: tensor<4x?x?xf32>, %j: tensor<?xi32>, %v: tensor<?x?xf32>) {
  // CHECK: nn.scatter <add>, %{{.+}}, %{{.+}}, %{{.+}} {axis = 1 : i64} : (tensor<4x100x?xf32>, tensor<4x?x?xi64>, tensor<4x?x?xf32>) -> tensor<4x100x?xf32>
  // CHECK: nn.scatter_nd <set>, %{{.+}}[%{{.+}}, %{{.+}}], %{{.+}} : (tensor<4x100x?xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xf32>) -> tensor<4x100x?xf32>
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x100x?xf32>, tensor<4x?x?xi64>, tensor<4x?x?xf32>) -> tensor<4x100x?xf32>
  %1 = nn.scatter_nd <set>, %x[%j, %j], %v : (tensor<4x100x?xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xf32>) -> tensor<4x100x?xf32>
  return
}
