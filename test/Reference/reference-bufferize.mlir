// RUN: intarsia-opt %s --reference-bufferize | FileCheck %s
// RUN: intarsia-opt %s --reference-to-loops | FileCheck %s --check-prefix=LOOPS

// Temporaries are freed at the end; the pipeline frees them after their last consumer. Copies are loops, not calls.
// CHECK-LABEL: func.func @double
// CHECK: %[[FIRST:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK: linalg.generic
// CHECK: %[[COPY:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK: linalg.copy ins(%[[FIRST]]
// CHECK: linalg.copy ins(%[[COPY]] : memref<?xf32>) outs(%arg1 : memref<?xf32>)
// CHECK: memref.dealloc %[[FIRST]]
// CHECK: memref.dealloc %[[COPY]]
// CHECK: return

// LOOPS-LABEL: func.func @double
// LOOPS: %[[FIRST:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// LOOPS: scf.for
// LOOPS: arith.addf
// LOOPS: %[[COPY:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// LOOPS: scf.for
// LOOPS: memref.dealloc %[[FIRST]]
// LOOPS: scf.for
// LOOPS: memref.store %{{.*}}, %arg1
// LOOPS: memref.dealloc %[[COPY]]
func.func @double(%in: memref<?xf32>, %out: memref<?xf32>) {
  %x = bufferization.to_tensor %in restrict : memref<?xf32> to tensor<?xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %copy = bufferization.alloc_tensor() copy(%r) : tensor<?xf32>
  bufferization.materialize_in_destination %copy in restrict writable %out : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}

// Two sizes of a call in the place of one.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK: %[[BASE:.*]], %{{.*}}, %{{.*}}:3, %[[STRIDES:.*]]:3 = memref.extract_strided_metadata %arg0
// CHECK: %[[ROW:.*]] = arith.muli %[[STRIDES]]#1, %arg3
// CHECK: memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [%{{.*}}, %arg2, %arg3, 4], strides: [%[[STRIDES]]#0, %[[ROW]], 4, 1]
// CHECK-NOT: memref.expand_shape
// LOOPS-LABEL: func.func @rows_and_columns
func.func @rows_and_columns(%in: memref<?x?x4xf32>, %out: memref<?x?x?x4xf32>, %h: index, %w: index) {
  %x = bufferization.to_tensor %in restrict : memref<?x?x4xf32> to tensor<?x?x4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1, 2], [3]] output_shape [%n, %h, %w, 4] : tensor<?x?x4xf32> into tensor<?x?x?x4xf32>
  bufferization.materialize_in_destination %e in restrict writable %out : (tensor<?x?x?x4xf32>, memref<?x?x?x4xf32>) -> ()
  return
}
