// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Each turn of the loop takes the first open box of both classes, until none is open or the limit is reached.
// CHECK-LABEL: func.func @nms
// CHECK: %[[LIMIT:.+]] = tensor.extract %arg2[] : tensor<i64>
// CHECK: scf.while {{.+}} : (tensor<1x2x6xi8>, tensor<1x2xi64>, i64) -> (tensor<1x2x6xi8>, tensor<1x2xi64>, i64)
// CHECK: arith.cmpi slt, %{{.+}}, %[[LIMIT]] : i64
// CHECK: scf.condition
// CHECK: scf.yield {{.+}} : tensor<1x2x6xi8>, tensor<1x2xi64>, i64
func.func @nms(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %i: tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>) {
  %0:2 = nn.nms %b, %s, %n, %i : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  return %0#0, %0#1 : tensor<12x3xi64>, tensor<i64>
}
