// RUN: intarsia-opt %s --wafer-lower-functions --wafer-verify-programs | FileCheck %s
// RUN: sed 's/on 8/on 32/' %s | intarsia-opt --wafer-lower-functions --wafer-verify-programs | FileCheck %s --check-prefix=LARGE

// Tiles of A are skewed along x and those of B along y, both in the order of the interleaved ring. One step is sent while the
// one before is multiplied; after seven of them the eighth product needs no message.
// CHECK-LABEL: wafer.program @mesh on <name = "wse-2"
// CHECK-SAME: grid 8 by 8
// CHECK: wafer.route @interleaved_x along x [#wafer.path<start = <start = 2, end = 8, period = 2>, by = -2, color = 0, alternate = true>, #wafer.path<start = <start = 1, end = 6, period = 2>, by = 2, color = 2, alternate = true>, #wafer.path<start = <start = 0, end = 1>, by = 1, color = 4>, #wafer.path<start = <start = 7, end = 8>, by = -1, color = 5>]
// CHECK: wafer.route @interleaved_y along y
// CHECK-DAG: wafer.load %[[A:.*]] from 0 as <rows = y, columns = x, ring = true, skew = columns> : memref<3x2xf16>, tensor<20x16xf16>
// CHECK-DAG: wafer.load %[[B:.*]] from 1 as <rows = y, columns = x, ring = true, skew = rows> : memref<2x1xf16>, tensor<16x8xf16>
// CHECK: wafer.compute zero %[[C:.*]] : memref<3x1xf32>
// CHECK: wafer.repeat 7(%[[A]], %[[NEXT_A:.*]], %[[B]], %[[NEXT_B:.*]])
// CHECK: wafer.send
// CHECK: wafer.send
// CHECK: wafer.receive
// CHECK: wafer.receive
// CHECK: wafer.compute gemm %[[C]]
// CHECK: wafer.await
// CHECK: wafer.compute gemm %[[C]], %[[NEXT_A]], %[[NEXT_B]]
// CHECK: wafer.store %[[C]] to 0 as <rows = y, columns = x, ring = true>

// The same ops on sixteen times as many cores.
// LARGE-LABEL: wafer.program @mesh
// LARGE-SAME: grid 32 by 32
// LARGE: wafer.repeat 31
// LARGE-COUNT-2: wafer.send
// LARGE-NOT: wafer.send
func.func @mesh(%a: tensor<20x16xf16>, %b: tensor<16x8xf16>) -> tensor<20x8xf32> {
  %c = wafer.dist_gemm mesh %a, %b on 8 : tensor<20x16xf16>, tensor<16x8xf16> -> tensor<20x8xf32>
  return %c : tensor<20x8xf32>
}
