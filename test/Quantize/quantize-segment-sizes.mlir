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
