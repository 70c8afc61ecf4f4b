// RUN: intarsia-test-opt %s --test-symbolic-sizes | FileCheck %s

// Two symbols that an op needs to be equal are one; the name that the user gave stays.
// CHECK-LABEL: func.func @elementwise
// CHECK-SAME: test_arguments = ["[rows, 8]", "[rows, 8]", "[rows, 8]"], test_checks = []
func.func @elementwise(%a: tensor<?x8xf32>, %b: tensor<?x?xf32> {nn.sizes = ["rows", "columns"]}, %c: tensor<?x8xf32>) {
  %0 = tensor.cast %b : tensor<?x?xf32> to tensor<?x8xf32>
  %1 = arith.addf %a, %0 : tensor<?x8xf32>
  // CHECK: arith.select {{.*}}["[rows, 8]"]
  %m = arith.cmpf olt, %1, %c : tensor<?x8xf32>
  %2 = arith.select %m, %1, %c : tensor<?x8xi1>, tensor<?x8xf32>
  return
}

// A number takes the place of a symbol.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: test_arguments = ["[n, 8]", "[4, 8]", "[4]"], test_checks = []
func.func @linear(%x: tensor<?x?xf32> {nn.sizes = ["n", "k"]}, %w: tensor<4x8xf32>, %b: tensor<?xf32>) {
  %0 = nn.linear %x, %w, %b : (tensor<?x?xf32>, tensor<4x8xf32>, tensor<?xf32>) -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @products
// CHECK-SAME: test_arguments = ["[b, m, k]", "[b, n, k]", "[b, k, m]"]
func.func @products(%x: tensor<?x?x?xf32> {nn.sizes = ["b", "m", "k"]}, %y: tensor<?x?x?xf32> {nn.sizes = ["c", "n", "l"]},
                    %z: tensor<?x?x?xf32> {nn.sizes = ["d", "o", "p"]}) {
  %0 = nn.matmul %x, %y {transpose_rhs} : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %1 = nn.matmul %z, %x {transpose_lhs, transpose_rhs} : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %2 = nn.matmul %x, %z : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %3 = arith.addf %2, %2 : tensor<?x?x?xf32>
  %4 = nn.matmul %z, %x : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  return
}

// CHECK-LABEL: func.func @attention
// CHECK-SAME: test_arguments = ["[b, s, 4, 8]", "[b, t, 4, 8]", "[b, t, 4, 5]", "[b, 1, s, t]"]
func.func @attention(%q: tensor<?x?x4x?xf32> {nn.sizes = ["b", "s", "", "d"]}, %k: tensor<?x?x4x8xf32> {nn.sizes = ["c", "t", "", ""]},
                     %v: tensor<?x?x4x5xf32>, %m: tensor<?x1x?x?xf32>) {
  %0 = nn.attention %q, %k, %v mask %m {scale = 1.0 : f32} : (tensor<?x?x4x?xf32>, tensor<?x?x4x8xf32>, tensor<?x?x4x5xf32>, tensor<?x1x?x?xf32>) -> tensor<?x?x4x5xf32>
  return
}

// CHECK-LABEL: func.func @rows
// CHECK-SAME: test_arguments = ["[n, 8]", "[8]", "[8]", "[2, 3, 4, 8]", "[2, 3]"]
func.func @rows(%x: tensor<?x?xf32> {nn.sizes = ["n", "f"]}, %g: tensor<?xf32>, %b: tensor<8xf32>,
                %r: tensor<?x?x4x8xf32>, %p: tensor<2x3xi64>) {
  %f = arith.constant dense<1.0> : tensor<4xf32>
  %0 = nn.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x?xf32>, tensor<?xf32>, tensor<8xf32>) -> tensor<?x?xf32>
  %1 = nn.rope %r, %p, %f : (tensor<?x?x4x8xf32>, tensor<2x3xi64>, tensor<4xf32>) -> tensor<?x?x4x8xf32>
  return
}

// Scales follow from codes; what is no symbol is left to check.
// CHECK-LABEL: func.func @blocks
// CHECK-SAME: test_arguments = ["[n, 4]", "[m, 4]"], test_checks = ["n ceildiv 32 == m"]
func.func @blocks(%c: tensor<?x?xi8> {nn.sizes = ["n", "f"]}, %s: tensor<?x4xf32> {nn.sizes = ["m", ""]}) {
  %0 = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 0>} : (tensor<?x?xi8>, tensor<?x4xf32>) -> tensor<?x?xf32>
  return
}

// Along each loop all operands agree.
// CHECK-LABEL: func.func @loops
// CHECK-SAME: test_arguments = ["[n, 4]", "[n]", "[4, n]"], test_checks = []
func.func @loops(%x: tensor<?x4xf32> {nn.sizes = ["n", ""]}, %y: tensor<?xf32> {nn.sizes = ["m"]}, %o: tensor<?x?xf32> {nn.sizes = ["p", "q"]}) {
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (b, a)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x4xf32>, tensor<?xf32>) outs(%o : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return
}

// Positions that are read in other ways lie inside; what is read at computed places may be of any positive size.
// CHECK-LABEL: func.func @positions
// CHECK-SAME: test_arguments = ["[n]", "[m, k]"], test_checks = ["n + 2 <= m", "n <= k"]
func.func @positions(%x: tensor<?xi64> {nn.sizes = ["n"]}, %y: tensor<?x?xf32> {nn.sizes = ["m", "k"]}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi64>
  %c1 = arith.constant 1 : index
  %next = arith.addi %n, %c1 : index
  %e = tensor.empty(%n) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xi64>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: i64, %o: f32):
    %i = linalg.index 0 : index
    %d = arith.index_cast %a : i64 to index
    %u = tensor.extract %y[%next, %i] : tensor<?x?xf32>
    %v = tensor.extract %y[%d, %d] : tensor<?x?xf32>
    %s = arith.addf %u, %v : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return
}

// What a slice takes from a static size is a limit; two dynamic ones are compared.
// CHECK-LABEL: func.func @slices
// CHECK-SAME: test_arguments = ["[4, 8]", "[n]", "[m]"], test_checks = ["n * 2 - 1 <= m", "n <= 2"]
func.func @slices(%x: tensor<4x8xf32>, %y: tensor<?xf32> {nn.sizes = ["n"]}, %z: tensor<?xf32> {nn.sizes = ["m"]}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %y, %c0 : tensor<?xf32>
  %0 = tensor.extract_slice %x[2, 0] [%n, 8] [1, 1] : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tensor.extract_slice %z[0] [%n] [2] : tensor<?xf32> to tensor<?xf32>
  return
}

// A limit that the user gave is enough. Sizes and offsets are not negative.
// CHECK-LABEL: func.func @limited
// CHECK-SAME: test_checks = ["0 <= n - 3", "n <= 4"]
func.func @limited(%x: tensor<4x8xf32>, %y: tensor<?xf32> {nn.sizes = ["n"]}) attributes {nn.size_limits = {n = 4 : i64}} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %y, %c0 : tensor<?xf32>
  %less = arith.subi %n, %c3 : index
  %0 = tensor.extract_slice %x[0, 0] [%n, 8] [1, 1] : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tensor.empty(%less) : tensor<?xf32>
  return
}

// Joined and reshaped tensors. Factors that both sides share do not matter.
// CHECK-LABEL: func.func @shapes
// CHECK-SAME: test_arguments = ["[n, 8]", "[m, 8]", "[b, s, 4]", "[b, s, 4]", "[p]"], test_checks = ["(p floordiv 4) * 4 == p"]
func.func @shapes(%x: tensor<?x?xf32> {nn.sizes = ["n", "f"]}, %y: tensor<?x8xf32> {nn.sizes = ["m", ""]},
                  %u: tensor<?x?x4xf32> {nn.sizes = ["b", "s", ""]}, %v: tensor<?x?x4xf32> {nn.sizes = ["b", "t", ""]},
                  %w: tensor<?xf32> {nn.sizes = ["p"]}) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %p = tensor.dim %w, %c0 : tensor<?xf32>
  %quarter = arith.divui %p, %c4 : index
  %0 = tensor.concat dim(0) %x, %y : (tensor<?x?xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = tensor.collapse_shape %u [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %2 = tensor.collapse_shape %v [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %3 = arith.addf %1, %2 : tensor<?x4xf32>
  %4 = tensor.expand_shape %w [[0, 1]] output_shape [%quarter, 4] : tensor<?xf32> into tensor<?x4xf32>
  return
}

// A result that has the name of an argument's size, or of another result's, has that size.
// CHECK-LABEL: func.func @results
// CHECK-SAME: test_arguments = ["[n]", "[n]", "[p]", "[p]"]
func.func @results(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]}, %z: tensor<?xf32> {nn.sizes = ["p"]},
                   %u: tensor<?xf32> {nn.sizes = ["q"]})
    -> (tensor<?xf32> {nn.sizes = ["m"]}, tensor<?xf32> {nn.sizes = ["own"]}, tensor<?xf32> {nn.sizes = ["own"]}) {
  return %x, %z, %u : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// Divisors are positive, and what is divided without a sign is not negative.
// CHECK-LABEL: func.func @divisions
// CHECK-SAME: test_checks = ["1 <= m - 1", "n <= 4"]
func.func @divisions(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = tensor.dim %y, %c0 : tensor<?xf32>
  %less = arith.subi %m, %c1 : index
  %rest = arith.subi %c4, %n : index
  // CHECK: arith.floordivsi {{.*}}["n floordiv (m - 1)"]
  %0 = arith.floordivsi %n, %less : index
  // CHECK: arith.divsi {{.*}}["(n * -1) floordiv 4 + 1"]
  %1 = arith.divsi %rest, %c4 : index
  return
}

// Narrow integers hold what calls give.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: test_checks = ["n <= 63"]
func.func @narrow(%x: tensor<?xf32> {nn.sizes = ["n"]}) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %twice = arith.muli %n, %c2 : index
  %0 = arith.index_cast %twice : index to i8
  %1 = arith.index_cast %0 : i8 to index
  return
}

// A name that the user took is not made again.
// CHECK-LABEL: func.func @names
// CHECK-SAME: test_arguments = ["[arg1.0]", "[arg1.0_]"]
func.func @names(%x: tensor<?xf32> {nn.sizes = ["arg1.0"]}, %y: tensor<?xf32>) {
  return
}

// A branch makes symbols neither numbers nor equal, and limits none: what it needs is checked in it. Calls that do not
// take it may have other sizes.
// CHECK-LABEL: func.func @branches
// CHECK-SAME: test_arguments = ["[n]", "[m]", "[k]", "[]"], test_checks = ["n == 4", "m == k", "n == 8", "m <= 5"]
func.func @branches(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]},
                    %z: tensor<?xf32> {nn.sizes = ["k"]}, %c: i1) {
  scf.if %c {
    %0 = tensor.cast %x : tensor<?xf32> to tensor<4xf32>
    %1 = arith.addf %y, %z : tensor<?xf32>
  } else {
    %0 = tensor.cast %x : tensor<?xf32> to tensor<8xf32>
    %c0 = arith.constant 0 : index
    %m = tensor.dim %y, %c0 : tensor<?xf32>
    %five = tensor.empty() : tensor<5xf32>
    %1 = tensor.extract_slice %five[0] [%m] [1] : tensor<5xf32> to tensor<?xf32>
  }
  return
}

// Sizes that a call computes may be 0. A dimension whose elements data chooses has one, unless nothing is chosen.
// CHECK-LABEL: func.func @chosen
// CHECK-SAME: test_checks = ["(1 floordiv (m + 1)) * -1 + 1 <= n"]
func.func @chosen(%x: tensor<?xf32> {nn.sizes = ["n"]}, %i: tensor<?xi64> {nn.sizes = ["m"]}, %r: tensor<?xf32>,
                  %s: tensor<?xf32> {nn.sizes = ["n"]}, %j: tensor<?xi64> {nn.sizes = ["n"]})
    attributes {nn.continues = @names} {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%i : tensor<?xi64>) outs(%r : tensor<?xf32>) {
  ^bb0(%number: i64, %out: f32):
    %at = arith.index_cast %number : i64 to index
    %read = tensor.extract %x[%at] : tensor<?xf32>
    linalg.yield %read : f32
  } -> tensor<?xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%j : tensor<?xi64>) outs(%s : tensor<?xf32>) {
  ^bb0(%number: i64, %out: f32):
    %at = arith.index_cast %number : i64 to index
    %read = tensor.extract %x[%at] : tensor<?xf32>
    linalg.yield %read : f32
  } -> tensor<?xf32>
  return
}

// A size may be 0 if that is permitted for all that are equal to it, whichever of them comes first.
// CHECK-LABEL: func.func @both_may_be_empty
// CHECK-SAME: test_checks = ["1 <= n"]
func.func @both_may_be_empty(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]})
    attributes {nn.empty_sizes = ["n", "m"]} {
  %0 = arith.addf %x, %y : tensor<?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %isMet = arith.cmpi sge, %n, %c1 : index
  cf.assert %isMet, "nn.pool" {fuse.asserts_size}
  %c7 = arith.constant 7 : index
  %isLong = arith.cmpi sge, %n, %c7 : index
  cf.assert %isLong, "an assertion of the user is none of the sizes"
  return
}

// CHECK-LABEL: func.func @first_may_be_empty
// CHECK-SAME: test_checks = []
func.func @first_may_be_empty(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]})
    attributes {nn.empty_sizes = ["n"]} {
  %0 = arith.addf %x, %y : tensor<?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %isMet = arith.cmpi sge, %n, %c1 : index
  cf.assert %isMet, "nn.pool" {fuse.asserts_size}
  return
}

// CHECK-LABEL: func.func @second_may_be_empty
// CHECK-SAME: test_checks = []
func.func @second_may_be_empty(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]})
    attributes {nn.empty_sizes = ["m"]} {
  %0 = arith.addf %x, %y : tensor<?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %isMet = arith.cmpi sge, %n, %c1 : index
  cf.assert %isMet, "nn.pool" {fuse.asserts_size}
  return
}

// What an op needed before it became loops is a constraint.
// CHECK-LABEL: func.func @asserted
// CHECK-SAME: test_checks = ["1 <= n", "3 <= m", "n + 1 <= m"]
func.func @asserted(%x: tensor<?xf32> {nn.sizes = ["n"]}, %y: tensor<?xf32> {nn.sizes = ["m"]})
    attributes {nn.empty_sizes = ["n"]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = tensor.dim %y, %c0 : tensor<?xf32>
  %isOne = arith.cmpi sle, %c1, %n : index
  cf.assert %isOne, "nn.pool" {fuse.asserts_size}
  %isThree = arith.cmpi ugt, %m, %c2 : index
  cf.assert %isThree, "nn.pool" {fuse.asserts_size}
  %isLess = arith.cmpi slt, %n, %m : index
  cf.assert %isLess, "nn.pool" {fuse.asserts_size}
  return
}
