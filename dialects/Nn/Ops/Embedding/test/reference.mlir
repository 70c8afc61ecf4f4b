// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// An index outside of the table gives NaN, and reads a row that is there.
// CHECK-LABEL: func.func @embedding
// CHECK-SAME: %[[TABLE:.*]]: tensor<?x4xf32>
func.func @embedding(%t: tensor<?x4xf32>, %i: tensor<?xi64>) -> tensor<?x4xf32> {
  // CHECK: %[[IS_INSIDE:.*]] = arith.cmpi ult
  // CHECK: %[[ROW:.*]] = arith.select %[[IS_INSIDE]]
  // CHECK: %[[VALUE:.*]] = tensor.extract %[[TABLE]][%[[ROW]], %{{.*}}]
  // CHECK: arith.constant 0x7FC00000 : f32
  // CHECK: arith.select %[[IS_INSIDE]], %[[VALUE]]
  // CHECK-NOT: = nn.
  %0 = nn.embedding %t, %i : (tensor<?x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
