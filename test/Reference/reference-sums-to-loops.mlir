// RUN: intarsia-opt %s --pass-pipeline='builtin.module(func.func(reference-sums-to-loops))' --split-input-file | FileCheck %s

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (j, k)>
#sum = affine_map<(i, j, k) -> (i, j)>

// Eight columns at once: each has its own additions, and they read one element of x.
// CHECK-LABEL: func @product
// CHECK:       scf.for
// CHECK:         %[[EIGHT:c8_.*]] = arith.constant 8 : index
// CHECK-NEXT:    scf.for {{.*}} step %[[EIGHT]]
// CHECK:           scf.for
// CHECK-COUNT-8:     arith.addf
// CHECK-NOT:         arith.addf
func.func @product(%x: memref<?x?xf64>, %w: memref<24x?xf64>, %y: memref<?x24xf64>) {
  linalg.generic {indexing_maps = [#lhs, #rhs, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<?x?xf64>, memref<24x?xf64>) outs(%y : memref<?x24xf64>) {
  ^bb0(%a: f64, %b: f64, %c: f64):
    %p = arith.mulf %a, %b : f64
    %s = arith.addf %c, %p : f64
    linalg.yield %s : f64
  }
  return
}

// -----

// Six columns are three times two.
// CHECK-LABEL: func @maximum
// CHECK:       scf.for
// CHECK:         scf.for
// CHECK-COUNT-2:   arith.maximumf
// CHECK-NOT:       arith.maximumf
func.func @maximum(%x: memref<6x?xf64>, %y: memref<6xf64>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%x : memref<6x?xf64>) outs(%y : memref<6xf64>) {
  ^bb0(%a: f64, %m: f64):
    %l = arith.maximumf %a, %m : f64
    linalg.yield %l : f64
  }
  return
}

// -----

// An odd number of results, a number that the call decides, and what is no sum stay as they are.
// CHECK-LABEL:    func @others
// CHECK-NOT:      scf.for
// CHECK-COUNT-3:  linalg.generic
func.func @others(%odd: memref<5x?xf64>, %a: memref<5xf64>, %dynamic: memref<?x8xf64>, %b: memref<?xf64>,
                  %c: memref<8xf64>, %d: memref<8xf64>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%odd : memref<5x?xf64>) outs(%a : memref<5xf64>) {
  ^bb0(%x: f64, %s: f64):
    %r = arith.addf %x, %s : f64
    linalg.yield %r : f64
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%dynamic : memref<?x8xf64>) outs(%b : memref<?xf64>) {
  ^bb0(%x: f64, %s: f64):
    %r = arith.addf %x, %s : f64
    linalg.yield %r : f64
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%c : memref<8xf64>) outs(%d : memref<8xf64>) {
  ^bb0(%x: f64, %s: f64):
    linalg.yield %x : f64
  }
  return
}
