// RUN: intarsia-opt %s --wafer-lower-functions --wafer-verify-programs | FileCheck %s

// Rows lie along y: tiles of the source go around the rings of their rows, and each core keeps its columns of them; then
// what was kept goes around the rings of the columns, and each core keeps its rows.
// CHECK-LABEL: wafer.program @rows_along_y
// CHECK-SAME: grid 6 by 6
// CHECK-DAG: %[[W:.*]] = wafer.buffer "w" {{.*}} : memref<3x2xf16>
// CHECK-DAG: %[[COLUMNS:.*]] = wafer.buffer "kept" {{.*}} : memref<3x2xf16>
// CHECK-DAG: %[[ROWS:.*]] = wafer.buffer "kept1" {{.*}} : memref<2x2xf16>
// CHECK: wafer.load %[[W]] from 0 as <rows = y, columns = x, extent = 4> : memref<3x2xf16>, tensor<12x8xf16>
// CHECK: wafer.compute zero %[[COLUMNS]]
// CHECK: wafer.repeat 6
// CHECK: wafer.send %{{.*}} on @interleaved_x
// CHECK: wafer.receive %{{.*}} on @interleaved_x
// CHECK: wafer.compute collect %[[COLUMNS]], %{{.*}} {relayout = #wafer.relayout<along = y, from = 4, to = 6, height = 12, width = 8>}
// CHECK: wafer.await
// CHECK: wafer.repeat 6(%[[COLUMNS]],
// CHECK: wafer.send %{{.*}} on @interleaved_y
// CHECK: wafer.compute collect %[[ROWS]], %{{.*}} {relayout = #wafer.relayout<along = y, from = 4, to = 6, height = 12, width = 8, second = true>}
// CHECK: wafer.store %[[ROWS]] to 0 as <rows = y, columns = x, ring = true, skew = rows, extent = 6> : memref<2x2xf16>, tensor<12x8xf16>
func.func @rows_along_y(%w: tensor<12x8xf16>) -> tensor<12x8xf16> {
  %v = wafer.dist_relayout %w along y from 4 to 6 on 6 : tensor<12x8xf16>
  return %v : tensor<12x8xf16>
}

// Rows lie along x: along y first, or a few cores would keep whole columns of the matrix.
// CHECK-LABEL: wafer.program @rows_along_x
// CHECK: wafer.load %{{.*}} from 0 as <rows = x, columns = y, extent = 4>
// CHECK: wafer.send %{{.*}} on @interleaved_y
// CHECK: relayout = #wafer.relayout<along = x, from = 4, to = 2, height = 12, width = 8>
// CHECK: wafer.send %{{.*}} on @interleaved_x
// CHECK: second = true
func.func @rows_along_x(%w: tensor<12x8xf16>) -> tensor<12x8xf16> {
  %v = wafer.dist_relayout %w along x from 4 to 2 on 4 : tensor<12x8xf16>
  return %v : tensor<12x8xf16>
}
