// RUN: intarsia-opt %s --fuse-outline-regions | FileCheck %s
// RUN: intarsia-opt %s --fuse-outline-regions --fuse-inline-regions | FileCheck %s --check-prefix=BACK

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
nn.archive @weights {file = "model.safetensors"}

// Weights, constants and sizes come along; arguments have the names of their sizes.
// CHECK-LABEL: func.func @main
// CHECK: scf.for {{.*}} iter_args(%[[NOW:.*]] = %{{.*}}) -> (tensor<?x8xf32>) {
// CHECK-NEXT: %[[H:.*]] = func.call @main.for(%{{.*}}, %[[NOW]], %{{.*}}) : (index, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: scf.yield %[[H]]
// CHECK: scf.if
// CHECK-NEXT: func.call @main.if(%{{.*}}, %{{.*}}) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield
// CHECK-LABEL: func.func private @main.if
// CHECK-SAME: {nn.sizes = ["rows", ""]}, %{{.*}}: tensor<?x8xf32> {nn.sizes = ["rows", ""]}) -> tensor<?x8xf32> attributes {nn.expected_sizes = {rows = 32 : i64}, nn.outlined_from = @main}
// CHECK: arith.addf
// CHECK-LABEL: func.func private @main.for
// CHECK-SAME: index, %{{.*}}: tensor<?x8xf32> {nn.sizes = ["rows", ""]})
// CHECK-DAG: nn.weight @weights["w"]
// CHECK-DAG: arith.constant 5.000000e-01
// CHECK-DAG: tensor.dim
// CHECK: nn.linear

// BACK-LABEL: func.func @main
// BACK: scf.for
// BACK: nn.linear
// BACK: scf.yield
// BACK: scf.if
// BACK-NEXT: arith.addf
// BACK-NEXT: scf.yield
// BACK-NOT: func.call
// BACK-NOT: func.func
func.func @main(%x: tensor<?x8xf32> {nn.sizes = ["rows", ""]}, %k: tensor<?xf32> {nn.sizes = ["k"]}) -> tensor<?x8xf32>
    attributes {nn.expected_sizes = {rows = 32}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %half = arith.constant 0.5 : f32
  %w = nn.weight @weights["w"] : tensor<8x8xf32>
  %n = tensor.dim %k, %c0 : tensor<?xf32>
  %rows = tensor.dim %x, %c0 : tensor<?x8xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%now = %x) -> tensor<?x8xf32> {
    %s = tensor.splat %half[%rows] : tensor<?x8xf32>
    %h = nn.linear %now, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    %next = arith.addf %h, %s : tensor<?x8xf32>
    scf.yield %next : tensor<?x8xf32>
  }
  %isMany = arith.cmpi sgt, %n, %c1 : index
  %y = scf.if %isMany -> tensor<?x8xf32> {
    %a = arith.addf %r, %x : tensor<?x8xf32>
    scf.yield %a : tensor<?x8xf32>
  } else {
    scf.yield %r : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

// Sizes that may be 0 stay so: those that the function has, and others that follow from them.
// BACK-LABEL: func.func @empty
// CHECK-LABEL: func.func @empty
// CHECK-LABEL: func.func private @empty.if
// CHECK-SAME: (%{{.*}}: tensor<?xf32> {nn.sizes = ["past"]}, %{{.*}}: tensor<?xf32> {nn.sizes = ["size.{{[0-9]+}}"]}, %{{.*}}: tensor<?xf32> {nn.sizes = ["now"]})
// CHECK-SAME: nn.empty_sizes = ["past", "size.{{[0-9]+}}"]
func.func @empty(%x: tensor<?xf32> {nn.sizes = ["past"]}, %y: tensor<?xf32> {nn.sizes = ["now"]}, %c: i1) -> tensor<f32>
    attributes {nn.empty_sizes = ["past"]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %now = tensor.dim %y, %c0 : tensor<?xf32>
  %less = arith.subi %now, %c1 : index
  %tail = tensor.extract_slice %y[1] [%less] [1] : tensor<?xf32> to tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %r = scf.if %c -> tensor<f32> {
    %0 = linalg.reduce ins(%x : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
      (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }
    %1 = linalg.reduce ins(%tail : tensor<?xf32>) outs(%0 : tensor<f32>) dimensions = [0]
      (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }
    %2 = linalg.reduce ins(%y : tensor<?xf32>) outs(%1 : tensor<f32>) dimensions = [0]
      (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32 linalg.yield %s : f32 }
    scf.yield %2 : tensor<f32>
  } else {
    scf.yield %zero : tensor<f32>
  }
  return %r : tensor<f32>
}
