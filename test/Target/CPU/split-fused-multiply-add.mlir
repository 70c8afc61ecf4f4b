// RUN: intarsia-opt %s --target-cpu-split-fused-multiply-add | FileCheck %s

// Sums of products round twice.
// CHECK-LABEL: func.func @product
// CHECK-SAME:    (%[[A:.*]]: vector<4xf32>, %[[B:.*]]: vector<4xf32>, %[[SUM:.*]]: vector<4xf32>)
// CHECK-NEXT:    %[[PRODUCT:.*]] = arith.mulf %[[A]], %[[B]] : vector<4xf32>
// CHECK-NEXT:    %[[RESULT:.*]] = arith.addf %[[PRODUCT]], %[[SUM]] : vector<4xf32>
// CHECK-NEXT:    return %[[RESULT]]
func.func @product(%a: vector<4xf32>, %b: vector<4xf32>, %sum: vector<4xf32>) -> vector<4xf32> {
  %0 = vector.fma %a, %b, %sum : vector<4xf32>
  return %0 : vector<4xf32>
}

// Elementary functions need the exact product of f32, which f64 holds.
// CHECK-LABEL: func.func @exact
// CHECK-SAME:    (%[[X:.*]]: vector<4xf32>, %[[Y:.*]]: vector<4xf32>, %[[Z:.*]]: vector<4xf32>)
// CHECK-DAG:     %[[WIDE_X:.*]] = arith.extf %[[X]] : vector<4xf32> to vector<4xf64>
// CHECK-DAG:     %[[WIDE_Y:.*]] = arith.extf %[[Y]] : vector<4xf32> to vector<4xf64>
// CHECK-DAG:     %[[WIDE_Z:.*]] = arith.extf %[[Z]] : vector<4xf32> to vector<4xf64>
// CHECK:         %[[PRODUCT:.*]] = arith.mulf %[[WIDE_X]], %[[WIDE_Y]] : vector<4xf64>
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[PRODUCT]], %[[WIDE_Z]] : vector<4xf64>
// CHECK-NEXT:    %[[RESULT:.*]] = arith.truncf %[[SUM]] : vector<4xf64> to vector<4xf32>
// CHECK-NEXT:    return %[[RESULT]]
func.func @exact(%x: vector<4xf32>, %y: vector<4xf32>, %z: vector<4xf32>) -> vector<4xf32> {
  %0 = math.fma %x, %y, %z : vector<4xf32>
  return %0 : vector<4xf32>
}

// CHECK-LABEL: func.func @scalar
// CHECK:         arith.mulf {{.*}} : f64
func.func @scalar(%x: f32) -> f32 {
  %0 = math.fma %x, %x, %x : f32
  return %0 : f32
}

// f64 has nothing wider.
// CHECK-LABEL: func.func @double
// CHECK-NEXT:    arith.mulf {{.*}} : f64
// CHECK-NEXT:    arith.addf {{.*}} : f64
// CHECK-NEXT:    return
func.func @double(%x: f64) -> f64 {
  %0 = math.fma %x, %x, %x : f64
  return %0 : f64
}
