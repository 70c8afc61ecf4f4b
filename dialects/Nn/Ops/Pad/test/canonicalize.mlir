// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @nothing
// CHECK-NEXT: return %arg0
func.func @nothing(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = nn.pad <edge>, %arg0 {low = array<i64: 0, 0>, high = array<i64: 0, 0>} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @moved
// CHECK: nn.pad
func.func @moved(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = nn.pad <constant>, %arg0 {low = array<i64: 0, 1>, high = array<i64: 0, -1>} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
