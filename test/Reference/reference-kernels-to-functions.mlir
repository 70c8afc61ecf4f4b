// RUN: intarsia-opt %s --reference-kernels-to-functions --split-input-file | FileCheck %s

// Sizes and buffers of a launch are read in the order of the module ABI: sizes of the kernel, inputs, outputs.
// CHECK-LABEL: func.func @itx_reference_kernel_0(
// CHECK-SAME: %[[BUFFERS:.*]]: !llvm.ptr, %[[SIZES:.*]]: !llvm.ptr) {
// CHECK: %[[S0:.*]] = arith.index_cast
// CHECK: %[[S1:.*]] = arith.index_cast
// CHECK: %[[N:.*]] = arith.muli %[[S0]], %[[S1]]
// CHECK: llvm.getelementptr %[[BUFFERS]][0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[X:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[N]], 8], strides: [8, 1] : memref<f32> to memref<?x8xf32>
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[X]] restrict
// CHECK: %[[R:.*]] = nn.relu %[[T]]
// The result is complete before anything is written: the output may be the input's memory.
// CHECK: %[[COPY:.*]] = bufferization.alloc_tensor() copy(%[[R]])
// CHECK: llvm.getelementptr %[[BUFFERS]][1]
// CHECK: bufferization.materialize_in_destination %[[COPY]] in restrict writable
// CHECK-NOT: rt.kernel
rt.kernel @relu(%x: tensor<?x8xf32> {nn.sizes = ["s0 * s1", ""]}) -> (tensor<?x8xf32> {nn.sizes = ["s0 * s1", ""]})
    attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %r = nn.relu %x : tensor<?x8xf32>
  rt.yield %r : tensor<?x8xf32>
}

// -----

// Panels of any width are read into a row-major matrix once.
// CHECK-LABEL: func.func @itx_reference_kernel_0
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [3, 8, 16], strides: [128, 16, 1] : memref<f32> to memref<3x8x16xf32>
// CHECK: %[[STORED:.*]] = bufferization.to_tensor
// CHECK: linalg.generic
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[K:.*]] = linalg.index 1
// CHECK: %[[PANEL:.*]] = arith.divui %[[ROW]], %c16
// CHECK: %[[INSIDE:.*]] = arith.remui %[[ROW]], %c16
// CHECK: tensor.extract %[[STORED]][%[[PANEL]], %[[K]], %[[INSIDE]]] : tensor<3x8x16xf32>
// CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<40x8xf32>) -> tensor<4x40xf32>
rt.kernel @linear(%x: tensor<4x8xf32>, %w: tensor<40x8xf32> {rt.layout = #rt.panels<16>}) -> tensor<4x40xf32>
    attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x8xf32>, tensor<40x8xf32>) -> tensor<4x40xf32>
  rt.yield %r : tensor<4x40xf32>
}

// -----

// Quantized values of a block format are bytes: 2 panels of 16 rows, 2 units of 64 k's, each 64 bytes of scales and 1024 of values.
// CHECK-LABEL: func.func @itx_reference_kernel_0
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [4352], strides: [1] : memref<i8> to memref<4352xi8>
// CHECK: linalg.generic
// CHECK: tensor.extract %{{.*}} : tensor<4352xi8>
// CHECK: arith.bitcast %{{.*}} : i16 to f16
// CHECK: arith.mulf
// CHECK: nn.linear
rt.kernel @quantized(%x: tensor<4x128xf32>, %w: tensor<32x128xf32> {rt.layout = #rt.panels<16, #nn.block_format<i8, f16, 32, axis = 1>>})
    -> tensor<4x32xf32> attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x128xf32>, tensor<32x128xf32>) -> tensor<4x32xf32>
  rt.yield %r : tensor<4x32xf32>
}

// -----

// The second panel of a layout in slices is the first of the other half.
// CHECK-LABEL: func.func @itx_reference_kernel_0
// CHECK: %[[PANEL:.*]] = arith.divui %{{.*}}, %c32
// CHECK: %[[OF_SLICE:.*]] = arith.remui %[[PANEL]], %c2
// CHECK: %[[FIRST:.*]] = arith.muli %[[OF_SLICE]], %c2
// CHECK: %[[SLICE:.*]] = arith.divui %[[PANEL]], %c2
// CHECK: arith.addi %[[FIRST]], %[[SLICE]]
rt.kernel @slices(%x: tensor<4x8xf32>, %w: tensor<128x8xf32> {rt.layout = #rt.panels<32 in 2 slices>}) -> tensor<4x128xf32>
    attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x8xf32>, tensor<128x8xf32>) -> tensor<4x128xf32>
  rt.yield %r : tensor<4x128xf32>
}

// -----

// Booleans are bytes. What is extracted outside of a tensor has a value.
// CHECK-LABEL: func.func @itx_reference_kernel_0
// CHECK: arith.cmpi ne, %{{.*}} : i8
// CHECK: arith.cmpi ult
// CHECK: scf.if %{{.*}} -> (i1) {
// CHECK: tensor.extract
// CHECK: arith.extui %{{.*}} : i1 to i8
rt.kernel @look_up(%x: tensor<8xi1>, %i: tensor<4xindex>) -> tensor<4xi1> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<4xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%i : tensor<4xindex>) outs(%e : tensor<4xi1>) {
  ^bb0(%in: index, %out: i1):
    %v = tensor.extract %x[%in] : tensor<8xi1>
    linalg.yield %v : i1
  } -> tensor<4xi1>
  rt.yield %r : tensor<4xi1>
}
