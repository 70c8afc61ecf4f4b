// RUN: intarsia-opt %s --lower-groups-to-kernels --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --intarsia-lower --split-input-file | FileCheck %s --check-prefix=PLANNED

// A loop carries a tensor in a buffer that is made before it, and copies the next value there when the work of its body
// is done. Buffers and weights of the body are made before the loop.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
// CHECK-LABEL: func.func @loop
// CHECK: %[[N:.*]] = rt.symbol "n"
// CHECK: %[[CARRIED:.*]] = rt.alloc(%{{.*}}) : memref<?x8xf32>
// CHECK: %[[E:.*]] = rt.copy %{{.*}} to %[[CARRIED]]
// CHECK: rt.wait %[[E]]
// CHECK: %[[W:.*]] = rt.constant_data
// CHECK: %[[BETWEEN:.*]] = rt.alloc(%{{.*}}) : memref<?x8xf32>
// CHECK: %[[NEXT:.*]] = rt.alloc(%{{.*}}) : memref<?x8xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[N]] step %{{.*}} {
// CHECK-NEXT: %[[K:.*]] = rt.dispatch @linear_{{.*}} ins(%[[CARRIED]], %[[W]] : {{.*}}) outs(%[[BETWEEN]] :
// CHECK-NEXT: %[[L:.*]] = rt.dispatch @rows_{{.*}} after(%[[K]]) {{.*}} ins(%[[BETWEEN]], %[[CARRIED]] : {{.*}}) outs(%[[NEXT]] :
// CHECK-NEXT: rt.wait %[[L]]
// CHECK-NEXT: %[[C:.*]] = rt.copy %[[NEXT]] to %[[CARRIED]]
// CHECK-NEXT: rt.wait %[[C]]
// CHECK-NEXT: }
// CHECK: rt.copy %[[CARRIED]] to

// What the loop carries is in use as long as it runs. The first value of a body shares no slot with the next one, which
// is computed from it.
// PLANNED-LABEL: func.func @loop
// PLANNED: %[[WS:.*]] = rt.workspace
// PLANNED: memref.view %[[WS]][%[[FIRST:[a-z0-9_]*]]][
// PLANNED: memref.view %[[WS]][%[[SECOND:[a-z0-9_]*]]][
// PLANNED: memref.view %[[WS]][%[[THIRD:[a-z0-9_]*]]][
// PLANNED-NOT: memref.view
func.func @loop(%x: tensor<?x8xf32> {nn.sizes = ["rows", ""]}, %k: tensor<?xf32> {nn.sizes = ["n"]}) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %k, %c0 : tensor<?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%now = %x) -> tensor<?x8xf32> {
    %w = arith.constant dense<2.0> : tensor<8x8xf32>
    %h = nn.group linear(%a = %now, %b = %w) : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32> {
      %l = nn.linear %a, %b : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
      nn.yield %l : tensor<?x8xf32>
    }
    %y = nn.group rows(%a = %h, %b = %now) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {
      %l = arith.addf %a, %b : tensor<?x8xf32>
      nn.yield %l : tensor<?x8xf32>
    }
    scf.yield %y : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// -----

// The host waits for what it reads. Buffers of two branches share a slot.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
// CHECK-LABEL: func.func @branch
// CHECK: %[[FLAG:.*]] = rt.alloc() : memref<i1>
// CHECK: %[[E:.*]] = rt.dispatch {{.*}} outs(%[[FLAG]] : memref<i1>)
// CHECK: rt.wait %[[E]]
// CHECK: %[[C:.*]] = memref.load %[[FLAG]][] : memref<i1>
// CHECK: %[[R:.*]] = rt.alloc() : memref<4xf32>
// CHECK: scf.if %[[C]] {
// CHECK: rt.copy %{{.*}} to %[[R]]
// CHECK-NEXT: rt.wait
// CHECK: } else {
// CHECK: rt.copy %{{.*}} to %[[R]]
// CHECK-NEXT: rt.wait
// CHECK: }
// CHECK: rt.copy %[[R]] to
// PLANNED-LABEL: func.func @branch
// PLANNED: %[[WS:.*]] = rt.workspace
// PLANNED: memref.view %[[WS]][%{{.*}}][] : memref<?xi8> to memref<i1>
// PLANNED: memref.view %[[WS]][%{{.*}}][] : memref<?xi8> to memref<4xf32>
// PLANNED: memref.view %[[WS]][%[[SHARED:.*]]][] : memref<?xi8> to memref<4xf32>
// PLANNED: memref.view %[[WS]][%[[SHARED]]][] : memref<?xi8> to memref<4xf32>
func.func @branch(%x: tensor<4xf32>, %f: tensor<i1>) -> tensor<4xf32> {
  %flag = nn.group rows(%a = %f) : (tensor<i1>) -> tensor<i1> {
    %l = arith.xori %a, %a : tensor<i1>
    nn.yield %l : tensor<i1>
  }
  %c = tensor.extract %flag[] : tensor<i1>
  %r = scf.if %c -> tensor<4xf32> {
    %y = nn.group rows(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %l = nn.relu %a : tensor<4xf32>
      nn.yield %l : tensor<4xf32>
    }
    scf.yield %y : tensor<4xf32>
  } else {
    %y = nn.group rows(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %l = arith.negf %a : tensor<4xf32>
      nn.yield %l : tensor<4xf32>
    }
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// Loops on a device with a memory of its own: what is carried stays there, the host reads a copy. What the condition
// passes on as it is stays in its buffer.
rt.device @slow {target = #rt.target<"reference", ["native"]>}
// CHECK-LABEL: func.func @device
// CHECK: %[[CARRIED:.*]] = rt.alloc() : memref<1xi64, #rt.memory<@slow>>
// CHECK: %[[HOST:.*]] = rt.alloc() : memref<1xi64>
// CHECK: %[[NEXT:.*]] = rt.alloc() : memref<1xi64, #rt.memory<@slow>>
// CHECK: scf.while : () -> () {
// CHECK: %[[E:.*]] = rt.copy %[[CARRIED]] to %[[HOST]]
// CHECK: rt.wait %[[E]]
// CHECK: %[[V:.*]] = memref.load %[[HOST]][%{{.*}}] : memref<1xi64>
// CHECK: %[[C:.*]] = arith.cmpi slt, %[[V]]
// CHECK-NOT: rt.copy
// CHECK: scf.condition(%[[C]])
// CHECK-NEXT: } do {
// CHECK-NEXT: %[[D:.*]] = rt.dispatch {{.*}} ins(%[[CARRIED]] : {{.*}}) outs(%[[NEXT]] :
// CHECK-NEXT: rt.wait %[[D]]
// CHECK-NEXT: %[[F:.*]] = rt.copy %[[NEXT]] to %[[CARRIED]]
// CHECK-NEXT: rt.wait %[[F]]
// CHECK-NEXT: scf.yield
// CHECK: rt.copy %[[CARRIED]] to
func.func @device(%x: tensor<1xi64>) -> tensor<1xi64> {
  %c0 = arith.constant 0 : index
  %end = arith.constant 9 : i64
  %r = scf.while (%now = %x) : (tensor<1xi64>) -> tensor<1xi64> {
    %v = tensor.extract %now[%c0] : tensor<1xi64>
    %c = arith.cmpi slt, %v, %end : i64
    scf.condition(%c) %now : tensor<1xi64>
  } do {
  ^bb0(%now: tensor<1xi64>):
    %y = nn.group rows(%a = %now) : (tensor<1xi64>) -> tensor<1xi64> {
      %l = arith.addi %a, %a : tensor<1xi64>
      nn.yield %l : tensor<1xi64>
    }
    scf.yield %y : tensor<1xi64>
  }
  return %r : tensor<1xi64>
}
