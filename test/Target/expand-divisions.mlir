// RUN: intarsia-opt %s --target-expand-divisions | FileCheck %s

// CHECK-LABEL: func.func @sizes
// CHECK-NOT:     arith.ceildivui
// CHECK-NOT:     arith.floordivsi
// CHECK-NOT:     arith.ceildivsi
// CHECK:         %[[IS_ZERO:.*]] = arith.cmpi eq, %[[ROWS:.*]], %{{.*}} : i64
// CHECK:         %[[BEFORE:.*]] = arith.subi %[[ROWS]], %{{.*}} : i64
// CHECK:         %[[QUOTIENT:.*]] = arith.divui %[[BEFORE]], %{{.*}} : i64
// CHECK:         %[[NEXT:.*]] = arith.addi %[[QUOTIENT]], %{{.*}} : i64
// CHECK:         arith.select %[[IS_ZERO]], %{{.*}}, %[[NEXT]] : i64
// CHECK:         arith.divsi
// CHECK:         arith.divsi
// CHECK-NOT:     arith.ceildivsi
// CHECK:         return
func.func @sizes(%rows: i64, %per_tile: i64) -> (i64, i64, i64) {
  %0 = arith.ceildivui %rows, %per_tile : i64
  %1 = arith.floordivsi %rows, %per_tile : i64
  %2 = arith.ceildivsi %rows, %per_tile : i64
  return %0, %1, %2 : i64, i64, i64
}

// Other divisions stay.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    arith.divui
// CHECK-NEXT:    arith.remui
// CHECK-NEXT:    return
func.func @plain(%rows: i64, %per_tile: i64) -> (i64, i64) {
  %0 = arith.divui %rows, %per_tile : i64
  %1 = arith.remui %rows, %per_tile : i64
  return %0, %1 : i64, i64
}
