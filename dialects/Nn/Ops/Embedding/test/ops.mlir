// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @embedding
func.func @embedding(%table: tensor<30522x384xf32>, %ids: tensor<?x?xi64>) {
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
  %0 = nn.embedding %table, %ids : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
  return
}
