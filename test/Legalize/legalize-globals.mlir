// RUN: intarsia-opt %s --split-input-file --verify-diagnostics --legalize-globals | FileCheck %s

// A global that nothing writes is a constant; one that is written is an argument and a result.

// CHECK-NOT: ml_program
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[H:.*]]: tensor<4xf32> {nn.global = "h", nn.name = "@h"})
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32> {nn.global = "h", nn.name = "@h"})
// CHECK: %[[K:.*]] = arith.constant dense<2.000000e+00>
// CHECK: %[[A:.*]] = arith.addf %[[H]], %[[X]]
// CHECK: %[[B:.*]] = arith.mulf %[[A]], %[[K]]
// CHECK: return %[[B]], %[[A]]
ml_program.global private mutable @h(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
ml_program.global private @k(dense<2.0> : tensor<4xf32>) : tensor<4xf32>
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %h = ml_program.global_load @h : tensor<4xf32>
  %k = ml_program.global_load_const @k : tensor<4xf32>
  %a = arith.addf %h, %x : tensor<4xf32>
  ml_program.global_store @h = %a : tensor<4xf32>
  %again = ml_program.global_load @h : tensor<4xf32>
  %b = arith.mulf %again, %k : tensor<4xf32>
  return %b : tensor<4xf32>
}

// Branches and loops pass it on.
// CHECK-LABEL: func.func @flow(
// CHECK-SAME: %[[C:[a-z0-9]+]]: i1
// CHECK-SAME: %[[H:.*]]: tensor<4xf32> {nn.global = "h"
// CHECK: %[[IF:.*]] = scf.if %[[C]] -> (tensor<4xf32>)
// CHECK: %[[N:.*]] = arith.negf %[[H]]
// CHECK: scf.yield %[[N]]
// CHECK: else
// CHECK: scf.yield %[[H]]
// CHECK: %[[FOR:.*]]:2 = scf.for {{.*}} iter_args(%[[V:.*]] = %{{.*}}, %[[S:.*]] = %[[IF]])
// CHECK: %[[T:.*]] = arith.addf %[[S]], %[[V]]
// CHECK: scf.yield %[[T]], %[[T]]
// CHECK: %[[WHILE:.*]] = scf.while (%[[U:.*]] = %[[FOR]]#1)
// CHECK: scf.condition(%{{.*}}) %[[U]]
// CHECK: ^bb0(%[[W:.*]]: tensor<4xf32>):
// CHECK: %[[D:.*]] = arith.addf %[[W]], %[[W]]
// CHECK: scf.yield %[[D]]
// CHECK: return %[[FOR]]#0, %[[WHILE]]
func.func @flow(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  scf.if %c {
    %h = ml_program.global_load @h : tensor<4xf32>
    %n = arith.negf %h : tensor<4xf32>
    ml_program.global_store @h = %n : tensor<4xf32>
  }
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%v = %x) -> tensor<4xf32> {
    %h = ml_program.global_load @h : tensor<4xf32>
    %t = arith.addf %h, %v : tensor<4xf32>
    ml_program.global_store @h = %t : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  scf.while : () -> () {
    %h = ml_program.global_load @h : tensor<4xf32>
    %f = tensor.extract %h[%c0] : tensor<4xf32>
    %ten = arith.constant 10.0 : f32
    %go = arith.cmpf olt, %f, %ten : f32
    scf.condition(%go)
  } do {
    %h = ml_program.global_load @h : tensor<4xf32>
    %d = arith.addf %h, %h : tensor<4xf32>
    ml_program.global_store @h = %d : tensor<4xf32>
    scf.yield
  }
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @initial_states() -> (tensor<4xf32> {nn.global = "h"}) attributes {nn.runs_at_load}
// CHECK: arith.constant dense<0.000000e+00> : tensor<4xf32>

// -----

// expected-error @below {{global '@h' has no initial value: give it one, such as (dense<0.0> : 'tensor<4xf32>')}}
ml_program.global private mutable @h : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) {
  ml_program.global_store @h = %x : tensor<4xf32>
  return
}

// -----

// expected-error @below {{global '@h' is 'f32', must be a ranked tensor}}
ml_program.global private mutable @h(0.0 : f32) : f32

// -----

// expected-error @below {{'ml_program.func' is not compiled: of ml_program, globals and what loads and stores them are}}
ml_program.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  ml_program.return %x : tensor<4xf32>
}

// -----

ml_program.global private mutable @h(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'scf.execute_region' reads or writes the global '@h' inside}}
  %y = scf.execute_region -> tensor<4xf32> {
    ml_program.global_store @h = %x : tensor<4xf32>
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
