// RUN: intarsia-opt %s --intarsia-fuse | FileCheck %s

// Each body is fused as a function of its own would be, and returns to its op.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v4"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main
// CHECK: scf.while
// CHECK: %[[MORE:.*]] = nn.group
// CHECK: %[[C:.*]] = tensor.extract %[[MORE]][] : tensor<i1>
// CHECK: scf.condition(%[[C]])
// CHECK: } do {
// CHECK: nn.group linear
// CHECK: nn.linear
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.yield
// CHECK: scf.yield
// CHECK-NOT: func.func
func.func @main(%x: tensor<?x8xf32> {nn.sizes = ["rows", ""]}, %limit: tensor<f32>) -> tensor<?x8xf32> {
  %r = scf.while (%now = %x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
    %lowest = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<f32>
    %i = linalg.fill ins(%lowest : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
        ins(%now : tensor<?x8xf32>) outs(%i : tensor<f32>) {
      ^bb0(%a: f32, %b: f32):
        %l = arith.maximumf %a, %b : f32
        linalg.yield %l : f32
    } -> tensor<f32>
    %more = arith.cmpf ogt, %m, %limit : tensor<f32>
    %c = tensor.extract %more[] : tensor<i1>
    scf.condition(%c) %now : tensor<?x8xf32>
  } do {
  ^bb0(%now: tensor<?x8xf32>):
    %w = nn.weight @weights["w"] : tensor<8x8xf32>
    %h = nn.linear %now, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    %next = nn.relu %h : tensor<?x8xf32>
    scf.yield %next : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}
