// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @roi_align
func.func @roi_align(%x: tensor<?x8x8x4xf16>, %b: tensor<?x4xf32>, %i: tensor<?xi32>) {
  // CHECK: nn.roi_align %{{.+}}, %{{.+}}, %{{.+}} {half_pixel, largest, samples = 2 : i64, sizes = array<i64: 7, 5>, spatial_scale = 2.500000e-01 : f32} : (tensor<?x8x8x4xf16>, tensor<?x4xf32>, tensor<?xi32>) -> tensor<?x7x5x4xf16>
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2, spatial_scale = 0.25 : f32, half_pixel, largest} : (tensor<?x8x8x4xf16>, tensor<?x4xf32>, tensor<?xi32>) -> tensor<?x7x5x4xf16>
  return
}
