// RUN: intarsia-opt %s --quantize-segment=segment=0 | FileCheck %s --check-prefix=FIRST
// RUN: intarsia-opt %s --quantize-segment=segment=1 | FileCheck %s --check-prefix=SECOND
// RUN: intarsia-opt %s --quantize-segment=segment=2 | FileCheck %s --check-prefix=LAST

// The last segment makes the size again, so that the value which has it goes past the second.
// FIRST-LABEL: func.func @main
// FIRST-SAME: -> (tensor<?x4xf32> {nn.name = "value.[[A:[0-9]+]].0"})
// SECOND-LABEL: func.func @main
// SECOND-SAME: %{{[a-z0-9]*}}: tensor<?x4xf32> {nn.name = "value.[[A:[0-9]+]].0"
// SECOND-SAME: -> (tensor<?x4xf32> {nn.name = "value.[[B:[0-9]+]].0"})
// SECOND-SAME: passed = ["value.[[A]].0"]
// LAST-LABEL: func.func @main
// LAST-SAME: %[[B:[a-z0-9]*]]: {{[^%]*}}%[[A:[a-z0-9]*]]: tensor<?x4xf32> {nn.name = "value
// LAST: %[[N:.*]] = tensor.dim %[[A]]
// LAST: tensor.expand_shape {{.*}} output_shape [%[[N]], 2, 2]
func.func @main(%x: tensor<?x4xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x2x2xf32> {nn.name = "y"}) {
  %c0 = arith.constant 0 : index
  %a = nn.relu %x : tensor<?x4xf32> loc("layers.0.a")
  %n = tensor.dim %a, %c0 : tensor<?x4xf32> loc("layers.0.a")
  %b = nn.relu %a : tensor<?x4xf32> loc("layers.1.b")
  %y = tensor.expand_shape %b [[0], [1, 2]] output_shape [%n, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32> loc("head")
  return %y : tensor<?x2x2xf32>
}

// What the function says of its sizes stays with those that the segment has.
// FIRST-LABEL: func.func @empty
// FIRST-SAME: nn.empty_sizes = ["past", "other"]
// FIRST-SAME: nn.size_limits = {other = 9 : i64, past = 8 : i64}
// SECOND-LABEL: func.func @empty
// SECOND-SAME: nn.empty_sizes = ["past"]
// SECOND-SAME: nn.size_limits = {past = 8 : i64}
func.func @empty(%x: tensor<?x4xf32> {nn.name = "x", nn.sizes = ["past", ""]}, %z: tensor<?x4xf32> {nn.name = "z", nn.sizes = ["other", ""]})
    -> (tensor<?x4xf32> {nn.name = "y"}) attributes {nn.empty_sizes = ["past", "other"], nn.size_limits = {past = 8, other = 9}} {
  %c = arith.constant dense<0.0> : tensor<4xf32>
  %t = linalg.reduce ins(%z : tensor<?x4xf32>) outs(%c : tensor<4xf32>) dimensions = [0]
    (%e: f32, %f: f32) { %s = arith.addf %e, %f : f32 linalg.yield %s : f32 } loc("layers.0.t")
  %m = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<?x4xf32>, tensor<4xf32>) outs(%x : tensor<?x4xf32>) {
  ^bb0(%e: f32, %f: f32, %g: f32):
    %s = arith.addf %e, %f : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32> loc("layers.0.m")
  %a = nn.relu %m : tensor<?x4xf32> loc("layers.0.a")
  %b = nn.relu %a : tensor<?x4xf32> loc("layers.1.b")
  %y = nn.relu %b : tensor<?x4xf32> loc("head")
  return %y : tensor<?x4xf32>
}
