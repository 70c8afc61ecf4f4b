// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A sum along rows: lanes run along the 104 elements that are added, in four vectors, two single ones and 8 elements.
// CHECK-LABEL: func.func @sum_run
// CHECK:         %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK:         %{{.*}} = scf.for %{{.*}} = %c64_i64 to %c96_i64 step %c16_i64
// CHECK:         vector.reduction <add>
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %c96_i64 to %c104_i64 step %c1_i64
// CHECK:         %[[RESULT:.*]] = arith.addf %[[SUM]], %{{.*}}
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

// A sum of columns: lanes run along the columns that stay, 169 = 8 * 16 + 2 * 16 + 8 + 1: eight vectors at a time, of
// which the elements of a row lie side by side, and in the end those that are left. A part of the columns is a unit of
// work.
// CHECK-LABEL: func.func @columns_run
// CHECK:         %[[BEGIN:.*]] = arith.muli %{{.*}}, %c128_i64
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %{{.*}} step %c128_i64
// CHECK:           %{{.*}} = scf.for %{{.*}} = %c0_i64 to %c9_i64 step %c1_i64 {{.*}} -> (vector<128xf32>)
// CHECK:         scf.for %{{.*}} step %c40_i64
// CHECK:           %{{.*}}:3 = scf.for %{{.*}} = %c0_i64 to %c9_i64 step %c1_i64 {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<8xf32>)
// CHECK-NOT:       vector.reduction
// CHECK:         scf.for %{{.*}} step %c1_i64
// CHECK-LABEL: func.func @columns_plan
rt.kernel @columns(%x: tensor<9x169xf32>) -> tensor<169xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<169xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<169xf32>) -> tensor<169xf32>
  %r = linalg.reduce ins(%x : tensor<9x169xf32>) outs(%f : tensor<169xf32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<169xf32>
}

// -----

// A transpose reads 16 vectors along the columns, swaps rows and columns in registers in four steps, and stores 16
// vectors. Of the 33 columns one is left, whose elements are copied one by one.
// CHECK-LABEL: func.func @transposed_run
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c16_i64
// CHECK-COUNT-16:    llvm.load %{{.*}} -> vector<16xf32>
// CHECK-COUNT-64:    vector.shuffle
// CHECK-NOT:         vector.shuffle
// CHECK-COUNT-16:    llvm.store %{{.*}} : vector<16xf32>
// CHECK:             scf.for
// CHECK:               llvm.store %{{.*}} : f32
// CHECK-LABEL: func.func @transposed_plan
rt.kernel @transposed(%x: tensor<17x33xf32>) -> tensor<33x17xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<33x17xf32>
  %r = linalg.transpose ins(%x : tensor<17x33xf32>) outs(%e : tensor<33x17xf32>) permutation = [1, 0]
  rt.yield %r : tensor<33x17xf32>
}

// -----

// The position of the largest element: each lane finds its own, the smallest position of the lanes that have the
// largest element counts. With a NaN the elements are looked at in order.
// CHECK-LABEL: func.func @position_run
// CHECK:         %[[LANES:.*]]:2 = scf.for %{{.*}} = %c0_i64 to %c96_i64 step %c16_i64 {{.*}} -> (vector<16xf32>, vector<16xi64>)
// CHECK:         %[[BEST:.*]] = vector.reduction <maximumf>, %[[LANES]]#0
// CHECK:         %[[HAS:.*]] = arith.cmpf oeq, %[[LANES]]#0
// CHECK:         %[[OF:.*]] = arith.select %[[HAS]], %[[LANES]]#1
// CHECK:         vector.reduction <minsi>, %[[OF]]
// CHECK:         arith.cmpf uno, %[[BEST]], %[[BEST]]
// CHECK:         scf.if
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c96_i64 step %c1_i64
// CHECK:         scf.for %{{.*}} = %c96_i64 to %c100_i64 step %c1_i64
// CHECK-LABEL: func.func @position_plan
rt.kernel @position(%x: tensor<4x100xf32>) -> (tensor<4xf32>, tensor<4xi64>) attributes {root = #nn.root<generic>, sizes = []} {
  %lowest = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xf32>
  %i = tensor.empty() : tensor<4xi64>
  %fe = linalg.fill ins(%lowest : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %fi = linalg.fill ins(%first : i64) outs(%i : tensor<4xi64>) -> tensor<4xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x100xf32>) outs(%fe, %fi : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%v: f32, %best: f32, %at: i64):
    %k = linalg.index 1 : index
    %k64 = arith.index_cast %k : index to i64
    %m = arith.maximumf %v, %best : f32
    %g = arith.cmpf ogt, %v, %best : f32
    %s = arith.select %g, %k64, %at : i64
    linalg.yield %m, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  rt.yield %r#0, %r#1 : tensor<4xf32>, tensor<4xi64>
}

// -----

// Rows that are shorter than vectors are one row: 6 * 7 elements. Two loops over what lies one behind the other are one
// loop: sums of 5 * 7 elements.
// CHECK-LABEL: func.func @short_rows_run
// CHECK:         scf.for %{{.*}} to %{{.*}} step %c16_i64
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK-LABEL: func.func @short_rows_plan
rt.kernel @short_rows(%x: tensor<6x7xf32>) -> tensor<6x7xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %r = math.absf %x : tensor<6x7xf32>
  rt.yield %r : tensor<6x7xf32>
}

// -----

// CHECK-LABEL: func.func @planes_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64 {{.*}} -> (vector<16xi32>)
// CHECK:         vector.reduction <add>
// CHECK:         scf.for %{{.*}} = %c32_i64 to %c35_i64 step %c1_i64
// CHECK-LABEL: func.func @planes_plan
rt.kernel @planes(%x: tensor<3x5x7xi32>) -> tensor<3xi32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<3xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<3xi32>) -> tensor<3xi32>
  %r = linalg.reduce ins(%x : tensor<3x5x7xi32>) outs(%f : tensor<3xi32>) dimensions = [1, 2] (%in: i32, %sum: i32) {
    %t = arith.addi %in, %sum : i32
    linalg.yield %t : i32
  }
  rt.yield %r : tensor<3xi32>
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

// -----

// A softmax of two reductions: the exponentials, which are summed and read again, lie in scratch.
// CHECK-LABEL: func.func @softmax_run
// CHECK:         vector.reduction <maximumf>
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK:         vector.reduction <add>
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:           arith.divf
// CHECK-NOT:       math.
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK-LABEL: func.func @softmax_plan
#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
rt.kernel @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x64xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.maximumf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %g = tensor.empty() : tensor<8x64xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8x64xf32>, tensor<8xf32>) outs(%g : tensor<8x64xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %d = arith.subf %v, %w : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<8x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x64xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<8x64xf32>, tensor<8xf32>) outs(%g : tensor<8x64xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.divf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<8x64xf32>
  rt.yield %y : tensor<8x64xf32>
}

// -----

// Every second element: two vectors that overlap by one element, and the even elements of both.
// CHECK-LABEL: func.func @apart_run
// CHECK-COUNT-2: llvm.load %{{.*}} -> vector<16xf32>
// CHECK:         vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31]
// CHECK-LABEL: func.func @apart_plan
rt.kernel @apart(%x: tensor<70x33xf32>) -> tensor<70x16xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<2xf32>
  %e = tensor.empty() : tensor<70x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70x16xf32>) -> tensor<70x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, k) -> (a, b * 2 + k)>, affine_map<(a, b, k) -> (k)>, affine_map<(a, b, k) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %t : tensor<70x33xf32>, tensor<2xf32>) outs(%f : tensor<70x16xf32>) {
  ^bb0(%v: f32, %tap: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<70x16xf32>
  rt.yield %r : tensor<70x16xf32>
}

// -----

// Rows of a table at positions from data are read as vectors, the position of a row once.
// CHECK-LABEL: func.func @gathered_run
// CHECK:         arith.cmpi ult, %{{.*}}, %c100_i64
// CHECK-NOT:     vector.from_elements
// CHECK:         llvm.load %{{.*}} -> vector<16xf32>
// CHECK-LABEL: func.func @gathered_plan
rt.kernel @gathered(%t: tensor<100x32xf32>, %i: tensor<70xi64>) -> tensor<70x32xf32> attributes {root = #nn.root<rows>, sizes = []} {
  %e = tensor.empty() : tensor<70x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<70xi64>) outs(%e : tensor<70x32xf32>) {
  ^bb0(%at: i64, %o: f32):
    %k = arith.index_cast %at : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %t[%k, %c] : tensor<100x32xf32>
    linalg.yield %v : f32
  } -> tensor<70x32xf32>
  rt.yield %r : tensor<70x32xf32>
}

// -----

// Products of rows of %x by one matrix for each head: 8 rows by 2 vectors are added up in one loop, in which a row of the
// matrix is read once for all of them, and an element of %x for both vectors. Of the 100 rows four are left, and of the
// 56 columns a vector and a half.
// CHECK-LABEL: func.func @tiles_run
// CHECK:         arith.cmpi sle
// CHECK:         scf.if
// CHECK:           scf.for %{{.*}} step %c32_i64
// CHECK:             %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64 {{.*}} -> (vector<32xf32>, {{.*}})
// CHECK-COUNT-1:       llvm.load %{{.*}} -> vector<32xf32>
// CHECK-NOT:           llvm.load %{{.*}} -> vector
// CHECK-COUNT-8:       arith.addf %{{.*}} : vector<32xf32>
// CHECK-COUNT-8:     llvm.store %{{.*}} : vector<32xf32>
// CHECK:           scf.for %{{.*}} step %c24_i64
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK-COUNT-8:       llvm.load %{{.*}} -> f32
// CHECK-NOT:           llvm.load %{{.*}} -> f32
// CHECK:               scf.yield
// CHECK:         } else {
// CHECK:             %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK-LABEL: func.func @tiles_plan
rt.kernel @tiles(%x: tensor<100x6x40xf32>, %y: tensor<40x6x56xf32>) -> tensor<6x100x56xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x100x56xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x100x56xf32>) -> tensor<6x100x56xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(a, b, c, k) -> (b, a, k)>, affine_map<(a, b, c, k) -> (k, a, c)>, affine_map<(a, b, c, k) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<100x6x40xf32>, tensor<40x6x56xf32>) outs(%f : tensor<6x100x56xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %m = arith.mulf %v, %w : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<6x100x56xf32>
  %r = math.absf %p : tensor<6x100x56xf32>
  rt.yield %r : tensor<6x100x56xf32>
}
