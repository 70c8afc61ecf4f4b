// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-checks --split-input-file --verify-diagnostics | FileCheck %s

#id = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>

// An input whose elements are indices is checked before the call starts.
// CHECK-LABEL: @rows
// CHECK-SAME: %{{.+}}: tensor<4xi64> {nn.range = array<i64: 0, 5>}
// CHECK-NOT: cf.assert
func.func @rows(%t: tensor<5x6xf32>, %rows: tensor<4xi64>) -> tensor<4x6xf32> {
  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<4xi64>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%r: i64, %o: f32):
    %i = arith.index_cast %r : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %t[%i, %j] : tensor<5x6xf32>
    linalg.yield %v : f32 } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// Others are computed once more, without the loop that they do not depend on.
// CHECK-LABEL: @computed
// CHECK-SAME: %{{.+}}: tensor<?x6xf32>, %[[ROWS:.+]]: tensor<4xi64>)
// CHECK: %[[Y:.+]] = linalg.generic
// CHECK: %[[SIZE:.+]] = arith.index_cast %{{.+}} : index to i64
// CHECK: %[[WORST:.+]] = linalg.generic {indexing_maps = [#{{.+}}, #{{.+}}], iterator_types = ["reduction"]} ins(%[[ROWS]]
// CHECK: arith.addi
// CHECK: arith.maxui
// CHECK: %[[INDEX:.+]] = tensor.extract %[[WORST]][]
// CHECK: %[[INSIDE:.+]] = arith.cmpi ult, %[[INDEX]], %[[SIZE]]
// CHECK: cf.assert %[[INSIDE]], "index of 'tensor.extract' in dimension 0"
// CHECK: return %[[Y]]
func.func @computed(%t: tensor<?x6xf32>, %rows: tensor<4xi64>) -> tensor<4x6xf32> {
  %one = arith.constant 1 : i64
  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<4xi64>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%r: i64, %o: f32):
    %next = arith.addi %r, %one : i64
    %i = arith.index_cast %next : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %t[%i, %j] : tensor<?x6xf32>
    linalg.yield %v : f32 } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// CHECK-LABEL: @branch
// CHECK-SAME: %{{.+}}: tensor<4xf32>, %{{.+}}: tensor<4xi64>)
// CHECK: arith.select
// CHECK: %[[OTHERS:.+]] = arith.select %{{.+}}, %{{.+}}, %c0_i64
// CHECK: arith.maxui %[[OTHERS]]
// CHECK: cf.assert
func.func @branch(%t: tensor<4xf32>, %x: tensor<4xi64>) -> tensor<4xf32> {
  %zero = arith.constant 0 : i64
  %none = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%r: i64, %o: f32):
    %is = arith.cmpi sge, %r, %zero : i64
    %v = scf.if %is -> f32 {
      %i = arith.index_cast %r : i64 to index
      %w = tensor.extract %t[%i] : tensor<4xf32>
      scf.yield %w : f32
    } else {
      scf.yield %none : f32
    }
    linalg.yield %v : f32 } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @divides
// CHECK: arith.divsi
// CHECK: arith.select
// CHECK-NOT: scf.if
func.func @divides(%x: tensor<4xi32>) -> tensor<4xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%v: i32, %o: i32):
    %is = arith.cmpi ne, %v, %zero : i32
    %c = scf.if %is -> i32 {
      %d = arith.divsi %v, %v : i32
      scf.yield %d : i32
    } else {
      scf.yield %zero : i32
    }
    linalg.yield %c : i32 } -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// The largest element is where there is one: a reduction keeps numbers of its loop.
// CHECK-LABEL: @largest
// CHECK-NOT: cf.assert
// CHECK: return
func.func @largest(%t: tensor<4x6xf32>, %x: tensor<6xf32>) -> tensor<1x4xf32> {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %i = tensor.empty() : tensor<i64>
  %j = linalg.fill ins(%zero : i64) outs(%i : tensor<i64>) -> tensor<i64>
  %best:2 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>, affine_map<(a) -> ()>],
      iterator_types = ["reduction"]} ins(%x : tensor<6xf32>) outs(%f, %j : tensor<f32>, tensor<i64>) {
  ^bb0(%v: f32, %o: f32, %p: i64):
    %k = linalg.index 0 : index
    %m = arith.index_cast %k : index to i64
    %c = arith.cmpf ogt, %v, %o : f32
    %r = arith.select %c, %v, %o : f32
    %q = arith.select %c, %m, %p : i64
    linalg.yield %r, %q : f32, i64 } -> (tensor<f32>, tensor<i64>)
  %u = tensor.empty() : tensor<1x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> ()>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%best#1 : tensor<i64>) outs(%u : tensor<1x4xf32>) {
  ^bb0(%v: i64, %o: f32):
    %row = linalg.index 1 : index
    %at = arith.index_cast %v : i64 to index
    %r = tensor.extract %t[%row, %at] : tensor<4x6xf32>
    linalg.yield %r : f32 } -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// A guard proves what it says, and keeps what it does not say for the call's check.
// CHECK-LABEL: @guarded
// CHECK: %[[CLAMPED:.+]] = arith.minsi
// CHECK: tensor.extract %{{.+}}[%[[CLAMPED]]]
// CHECK-NOT: cf.assert
// CHECK: return
func.func @guarded(%t: tensor<4xf32>) -> tensor<6xf32> {
  %c4 = arith.constant 4 : index
  %none = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %is = arith.cmpi uge, %i, %c4 : index
    %v = scf.if %is -> f32 {
      scf.yield %none : f32
    } else {
      %w = tensor.extract %t[%i] : tensor<4xf32>
      scf.yield %w : f32
    }
    linalg.yield %v : f32 } -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// What is proven has no check: numbers from the end, remainders, clamped floats of a counter.
// CHECK-LABEL: @proven
// CHECK-SAME: %{{.+}}: tensor<6xf32>, %{{.+}}: tensor<6xi32>)
// CHECK-NOT: cf.assert
// CHECK: return
func.func @proven(%t: tensor<6xf32>, %x: tensor<6xi32>) -> tensor<6xf32> {
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0 : i64
  %six = arith.constant 6 : i64
  %least = arith.constant 0.0 : f32
  %most = arith.constant 5.0 : f32
  %ids = arith.constant dense<[5, 0, 1, 2, 3, 4]> : tensor<6xi64>
  %top = arith.constant 5 : i32
  %low = arith.constant 0 : i32
  %e = tensor.empty() : tensor<6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%ids, %x : tensor<6xi64>, tensor<6xi32>) outs(%e : tensor<6xf32>) {
  ^bb0(%id: i64, %r: i32, %o: f32):
    %here = linalg.index 0 : index
    %reversed = arith.subi %c5, %here : index
    %a = tensor.extract %t[%reversed] : tensor<6xf32>
    %is = arith.cmpi slt, %id, %zero : i64
    %from_end = arith.addi %id, %six : i64
    %wrapped = arith.select %is, %from_end, %id : i64
    %j = arith.index_cast %wrapped : i64 to index
    %b = tensor.extract %t[%j] : tensor<6xf32>
    %number = arith.index_cast %here : index to i64
    %float = arith.sitofp %number : i64 to f32
    %above = arith.maximumf %float, %least : f32
    %within = arith.minimumf %above, %most : f32
    %back = arith.fptosi %within : f32 to i64
    %k = arith.index_cast %back : i64 to index
    %c = tensor.extract %t[%k] : tensor<6xf32>
    %clamped = arith.minsi %r, %top : i32
    %positive = arith.maxsi %clamped, %low : i32
    %l = arith.index_cast %positive : i32 to index
    %d = tensor.extract %t[%l] : tensor<6xf32>
    %ab = arith.addf %a, %b : f32
    %cd = arith.addf %c, %d : f32
    %sum = arith.addf %ab, %cd : f32
    linalg.yield %sum : f32 } -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// CHECK-LABEL: @assertion
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
// CHECK: math.sqrt
// CHECK-NOT: cf.assert
// CHECK: %[[WORST:.+]] = linalg.generic {{.+}} iterator_types = ["reduction"]} ins(%[[X]]
// CHECK: %[[GOOD:.+]] = arith.cmpi eq
// CHECK: cf.assert %[[GOOD]], "below zero"
func.func @assertion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %is = arith.cmpf oge, %v, %zero : f32
    cf.assert %is, "below zero"
    %r = math.sqrt %v : f32
    linalg.yield %r : f32 } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @accumulated(%x: tensor<4xi64>, %t: tensor<9xi64>) -> tensor<i64> {
  %zero = arith.constant dense<0> : tensor<i64>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<4xi64>) outs(%zero : tensor<i64>) {
  ^bb0(%v: i64, %o: i64):
    %i = arith.index_cast %o : i64 to index
    // expected-error@+1 {{'tensor.extract' has an index that depends on what a reduction has accumulated: such a one cannot be checked}}
    %r = tensor.extract %t[%i] : tensor<9xi64>
    %s = arith.addi %v, %r : i64
    linalg.yield %s : i64 } -> tensor<i64>
  return %y : tensor<i64>
}
