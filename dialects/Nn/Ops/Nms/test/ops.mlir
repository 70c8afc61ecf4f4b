// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @nms
func.func @nms(%b: tensor<1x?x4xf32>, %s: tensor<1x80x?xf32>, %n: tensor<i64>, %i: tensor<f32>, %t: tensor<f32>) {
  // CHECK: nn.nms %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} : (tensor<1x?x4xf32>, tensor<1x80x?xf32>, tensor<i64>, tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<1x?x4xf32>, tensor<1x80x?xf32>, tensor<i64>, tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
  // CHECK: nn.nms %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} {centered} : (tensor<1x?x4xf32>, tensor<1x80x?xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
  %1:2 = nn.nms %b, %s, %n, %i, %t {centered} : (tensor<1x?x4xf32>, tensor<1x80x?xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
  return
}
