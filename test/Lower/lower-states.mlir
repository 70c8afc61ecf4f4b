// RUN: intarsia-opt %s -intarsia-fuse -intarsia-lower -split-input-file | FileCheck %s

// A loop that carries a state updates it where it is. The positions that the loop computes are checked in each iteration,
// by the host; those that calls give are checked before anything runs.
// CHECK-LABEL: func.func @loop
// CHECK-SAME:  memref<1xi64> {nn.name = "start"}
// CHECK-SAME:  memref<1xi64> {nn.below = [1, "sequences"], nn.range =
// CHECK-SAME:  memref<?x?xi64> {nn.below = [1, "pages"], nn.range =
// CHECK-SAME:  %[[KEYS:[^:]*]]: memref<?x2x64x32xf16> {{[^%]*}}nn.state
// CHECK-NOT:   rt.output
// CHECK:       %[[POSITION:.*]] = memref.view {{.*}} to memref<1xi64>
// CHECK:       scf.for
// CHECK-NEXT:  rt.check_indices %[[POSITION]]() below %{{.*}} {limit_text = "entries * 32", name = "positions", why = "'nn.cache_append' needs it (entries is dimension 1 of input 'arg3')"} : memref<1xi64>
// CHECK-NEXT:  rt.dispatch @cache_append{{.*}} ins(%[[KEYS]], {{.*}} outs(%[[KEYS]] : memref<?x2x64x32xf16>)
// CHECK-NOT:   xf16> to memref
// CHECK:       return
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @loop(%rows: tensor<1x2x64xf32>, %start: tensor<1xi64> {nn.name = "start"}, %sequences: tensor<1xi64>,
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1> : tensor<1xi64>
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %r:2 = scf.for %i = %c0 to %size step %c1 iter_args(%k = %keys, %p = %start) -> (tensor<?x2x64x32xf16>, tensor<1xi64>) {
    %k1 = nn.cache_append(%k) <keys, f16, page = 32, transposed>, %rows, %p, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    %p1 = arith.addi %p, %one : tensor<1xi64>
    scf.yield %k1, %p1 : tensor<?x2x64x32xf16>, tensor<1xi64>
  }
  return %r#0 : tensor<?x2x64x32xf16>
}

// -----

// One branch updates a state, the other one leaves it: both yield it. It is read behind the branches, and copied for a
// result that is no state.
// CHECK-LABEL: func.func @branch
// CHECK-SAME:  %[[KEYS:[^:]*]]: memref<?x2x64x32xf16> {{[^%]*}}nn.state
// CHECK:       %[[COPY:.*]] = rt.output 0
// CHECK:       scf.if
// CHECK-NEXT:  rt.dispatch @cache_append{{.*}} outs(%[[KEYS]] :
// CHECK-NEXT:  rt.wait
// CHECK-NEXT:  }
// CHECK:       rt.copy %[[KEYS]] to %[[COPY]]
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @branch(%rows: tensor<1x2x64xf32>, %start: tensor<1xi64> {nn.name = "start"}, %sequences: tensor<1xi64>,
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}, tensor<?x2x64x32xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1> : tensor<1xi64>
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %many = arith.cmpi sgt, %size, %c1 : index
  %r = scf.if %many -> tensor<?x2x64x32xf16> {
    %k1 = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %start, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    scf.yield %k1 : tensor<?x2x64x32xf16>
  } else {
    scf.yield %keys : tensor<?x2x64x32xf16>
  }
  return %r, %r : tensor<?x2x64x32xf16>, tensor<?x2x64x32xf16>
}

// -----

// The condition passes the state on, in another order. It is used by two kernels in one block: the second waits for the
// first.
// CHECK-LABEL: func.func @while
// CHECK-SAME:  %[[KEYS:[^:]*]]: memref<?x2x64x32xf16, #rt.memory<@reference>> {{[^%]*}}nn.state
// CHECK:       scf.while
// CHECK:       scf.condition
// CHECK-NEXT:  } do {
// CHECK-NEXT:  %[[COPIED:.*]] = rt.copy %{{.*}} to %[[HOST:.*]] on {{.*}} : memref<1xi64, #rt.memory<@reference>> to memref<1xi64>
// CHECK-NEXT:  rt.wait %[[COPIED]]
// CHECK-NEXT:  rt.check_indices %[[HOST]]()
// CHECK:       %[[FIRST:.*]] = rt.dispatch @cache_append{{.*}} outs(%[[KEYS]] :
// CHECK-NOT:   rt.check_indices
// CHECK:       rt.dispatch @cache_append{{.*}} after(%[[FIRST]]{{.*}} outs(%[[KEYS]] :
// CHECK-NOT:   xf16, #rt.memory<@reference>> to
rt.device @reference {target = #rt.target<"reference", ["native"]>}
func.func @while(%rows: tensor<1x2x64xf32>, %start: tensor<1xi64> {nn.name = "start"}, %sequences: tensor<1xi64>,
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1> : tensor<1xi64>
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %r:2 = scf.while (%k = %keys, %p = %start) : (tensor<?x2x64x32xf16>, tensor<1xi64>) -> (tensor<1xi64>, tensor<?x2x64x32xf16>) {
    %v = tensor.extract %p[%c0] : tensor<1xi64>
    %at = arith.index_cast %v : i64 to index
    %more = arith.cmpi slt, %at, %size : index
    scf.condition(%more) %p, %k : tensor<1xi64>, tensor<?x2x64x32xf16>
  } do {
  ^bb0(%p: tensor<1xi64>, %k: tensor<?x2x64x32xf16>):
    %k1 = nn.cache_append(%k) <keys, f16, page = 32, transposed>, %rows, %p, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    %k2 = nn.cache_append(%k1) <keys, f16, page = 32, transposed>, %rows, %p, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
    %p1 = arith.addi %p, %one : tensor<1xi64>
    scf.yield %k2, %p1 : tensor<?x2x64x32xf16>, tensor<1xi64>
  }
  return %r#1 : tensor<?x2x64x32xf16>
}

// -----

// A loop reads a state that it does not carry; indices that are constants need no check.
// CHECK-LABEL: func.func @constants
// CHECK-NOT:   rt.check_indices
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
func.func @constants(%rows: tensor<1x2x64xf32>, %start: tensor<1xi64> {nn.name = "start"}, %sequences: tensor<1xi64>,
                %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %n: tensor<?xi64> {nn.sizes = ["n"]},
                %keys: tensor<?x2x64x32xf16> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?x2x64x32xf16> {nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1> : tensor<1xi64>
  %size = tensor.dim %n, %c0 : tensor<?xi64>
  %zero = arith.constant dense<0> : tensor<1xi64>
  %k1 = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rows, %zero, %zero, %pages : (tensor<?x2x64x32xf16>, tensor<1x2x64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return %k1 : tensor<?x2x64x32xf16>
}
