// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A sum along rows: lanes run along the 104 elements that are added, in four vectors, two single ones and 8 elements.
// CHECK-LABEL: func.func @sum_run
// CHECK:         %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK:         %{{.*}} = scf.for %{{.*}} = %c64_i64 to %c96_i64 step %c16_i64
// CHECK:         vector.reduction <add>
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %c96_i64 to %c104_i64 step %c1_i64
// CHECK:         %[[RESULT:.*]] = arith.addf %{{.*}}, %[[SUM]]
// CHECK:         llvm.store %[[RESULT]]
// CHECK-LABEL: func.func @sum_plan
rt.kernel @sum(%x: tensor<4x104xf32>) -> tensor<4xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = linalg.reduce ins(%x : tensor<4x104xf32>) outs(%f : tensor<4xf32>) dimensions = [1] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<4xf32>
}

// -----

// A sum of columns: lanes run along the columns that stay, 40 = 2 * 16 + 8.
// CHECK-LABEL: func.func @columns_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:           %{{.*}} = scf.for %{{.*}} = %c0_i64 to %c9_i64 step %c1_i64 {{.*}} -> (vector<16xf32>)
// CHECK-NOT:       vector.reduction
// CHECK:         scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK-LABEL: func.func @columns_plan
rt.kernel @columns(%x: tensor<9x40xf32>) -> tensor<40xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %r = linalg.reduce ins(%x : tensor<9x40xf32>) outs(%f : tensor<40xf32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<40xf32>
}

// -----

// A transpose gathers its lanes one by one.
// CHECK-LABEL: func.func @transposed_run
// CHECK-COUNT-16: llvm.load %{{.*}} -> f32
// CHECK:         vector.from_elements
// CHECK:         llvm.store %{{.*}} : vector<16xf32>
// CHECK-LABEL: func.func @transposed_plan
rt.kernel @transposed(%x: tensor<32x9xf32>) -> tensor<9x32xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<9x32xf32>
  %r = linalg.transpose ins(%x : tensor<32x9xf32>) outs(%e : tensor<9x32xf32>) permutation = [1, 0]
  rt.yield %r : tensor<9x32xf32>
}

// -----

// A position that comes from data is compared with the table; outside there is NaN.
// CHECK-LABEL: func.func @embedding_run
// CHECK:         %[[IS_INSIDE:.*]] = arith.cmpi ult, %[[ROW:.*]], %c100_i64
// CHECK:         %[[SAFE:.*]] = arith.select %[[IS_INSIDE]], %[[ROW]], %c0_i64
// CHECK:         arith.muli %[[SAFE]], %c32_i64
// CHECK:         %[[ELEMENTS:.*]] = llvm.load %{{.*}} -> vector<16xf32>
// CHECK:         %[[NAN:.*]] = arith.constant dense<0x7FC00000> : vector<16xf32>
// CHECK:         arith.select %[[IS_INSIDE]], %[[ELEMENTS]], %[[NAN]]
rt.kernel @embedding(%t: tensor<100x32xf32>, %i: tensor<?xi64> {nn.sizes = ["s0"]}) -> (tensor<?x32xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.embedding %t, %i : (tensor<100x32xf32>, tensor<?xi64>) -> tensor<?x32xf32>
  rt.yield %0 : tensor<?x32xf32>
}
