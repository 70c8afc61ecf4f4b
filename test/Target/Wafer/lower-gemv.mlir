// RUN: intarsia-opt %s --wafer-lower-functions --wafer-verify-programs | FileCheck %s

// Partial sums go up and down to the middle of each group of four, from there to the middle group, and back to all.
// The second product has the axes exchanged: it finds its vector where the first one leaves it.
// CHECK-LABEL: wafer.program @chain
// CHECK: wafer.route @up_4_y along y [#wafer.path<start = <start = 0, end = 6, period = 4, width = 2>, by = 1, color = 0, alternate = true>]
// CHECK: wafer.route @down_4_y along y [#wafer.path<start = <start = 3, end = 8, period = 4>, by = -1, color = 2, alternate = true>]
// CHECK: wafer.route @centers_up_4_y along y [#wafer.path<start = <start = 2, end = 3, period = 4>, by = 4,
// CHECK: wafer.route @from_6_y along y [{{.*}}by = 1,{{.*}}multicast = true>, {{.*}}by = -6,
// CHECK-DAG: wafer.load %{{.*}} from 0 as <rows = none, columns = y>
// CHECK-DAG: wafer.load %{{.*}} from 1 as <rows = y, columns = x>
// CHECK-DAG: wafer.load %{{.*}} from 2 as <rows = x, columns = y>
// CHECK: wafer.compute gemv %[[Y:.*]], %{{.*}}, %{{.*}} : memref<1x1xf16>
// CHECK: wafer.send %[[Y]] on @up_4_y at <y = <start = 0, end = 5, period = 4>>
// CHECK: wafer.forward add %[[Y]] from @up_4_y on @up_4_y at <y = <start = 1, end = 6, period = 4>>
// CHECK: wafer.receive add %[[Y]] on @up_4_y at <y = <start = 2, end = 7, period = 4>>
// CHECK: wafer.await
// CHECK: wafer.receive add %[[Y]] on @centers_up_4_y at <y = <start = 6, end = 7, period = 4>>
// CHECK: wafer.send %[[Y]] on @from_6_y
// CHECK: wafer.compute silu %[[Z:.*]], %[[Y]]
// CHECK: wafer.compute gemv %{{.*}}, %[[Z]]
// CHECK: @up_4_x
// CHECK: wafer.store %{{.*}} to 0 as <rows = none, columns = y>
func.func @chain(%x: tensor<1x16xf16>, %v: tensor<16x8xf16>, %w: tensor<8x24xf16>) -> tensor<1x24xf16> {
  %y = wafer.dist_gemv tree %x, %v on 8 groups 2 : tensor<1x16xf16>, tensor<16x8xf16> -> tensor<1x8xf16>
  %z = wafer.dist_map silu %y on 8 : tensor<1x8xf16>
  %u = wafer.dist_gemv tree %z, %w on 8 groups 2 : tensor<1x8xf16>, tensor<8x24xf16> -> tensor<1x24xf16>
  return %u : tensor<1x24xf16>
}
