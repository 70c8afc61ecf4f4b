// RUN: intarsia-opt %s --quantize-segment=segment=0 | FileCheck %s --check-prefix=FIRST
// RUN: intarsia-opt %s --quantize-segment=segment=1 | FileCheck %s --check-prefix=SECOND
// RUN: intarsia-opt %s --quantize-segment="segment=0 weights=other.safetensors" | FileCheck %s --check-prefix=DECODED
// RUN: intarsia-opt %s --quantize-segment=segment=2 | FileCheck %s --check-prefix=LAST
// RUN: intarsia-opt %s --quantize-segment="segment=2 arguments" | FileCheck %s --check-prefix=RESULTS
// RUN: intarsia-opt %s --quantize-segment="segment=0 arguments" | FileCheck %s --check-prefix=ARGUMENTS
// RUN: intarsia-opt %s --quantize-segment="segment=0 arguments kept=up" | FileCheck %s --check-prefix=KEPT
// RUN: intarsia-opt %s --intarsia-quantize="format=none segment=0 segment-arguments activations=8-static \
// RUN:   tensors=up=int8-channel static-inputs=3F800000-3F800000-3F800000-3F800000-3F800000-3F800000-3F800000-3F800000/up" \
// RUN:   | FileCheck %s --check-prefix=BYTES
// RUN: not intarsia-opt %s --quantize-segment=segment=3 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --intarsia-quantize="format=none segment=7" 2>&1 | FileCheck %s --check-prefix=NONE

nn.archive @weights {file = "model.safetensors"}

// The first segment has what comes before the first layer. A value that only the last segment reads goes past the second.
// FIRST-LABEL: func.func @main
// FIRST-SAME: (%[[IDS:[a-z0-9]*]]: tensor<?xi64> {nn.name = "ids", nn.sizes = ["tokens"]})
// FIRST-SAME: -> (tensor<?x8xf32> {nn.name = "input.layers.0.up"}, tensor<?x8xf32> {nn.name = "value.{{[0-9]+}}.0"},
// FIRST-SAME: tensor<?x8xf32> {nn.name = "value.{{[0-9]+}}.0"})
// FIRST-SAME: attributes {nn.metadata = {linears = ["layers.0.up", "layers.0.gate"], passed = [], segments = 3 : i64}}
// FIRST: %[[TABLE:.*]] = nn.weight @weights["table"] : tensor<9x8xf32>
// FIRST: %[[ROWS:.*]] = nn.embedding %[[TABLE]], %[[IDS]]
// FIRST: %[[UP:.*]] = nn.weight @weights["up"] : tensor<8x8xbf16>
// FIRST: %[[A:.*]] = nn.linear %[[ROWS]], %[[UP]]
// FIRST: %[[B:.*]] = nn.linear %[[ROWS]], %{{.*}}
// FIRST: %[[SUM:.*]] = arith.addf %[[A]], %[[B]]
// FIRST: return %[[ROWS]], %[[ROWS]], %[[SUM]]

// Matrices of linears may be those of another archive, in f32.
// DECODED: nn.archive @decoded {file = "other.safetensors"}
// DECODED: nn.archive @weights
// DECODED: nn.weight @weights["table"] : tensor<9x8xf32>
// DECODED: nn.weight @decoded["up"] : tensor<8x8xf32>
// DECODED: nn.weight @decoded["gate"] : tensor<8x8xf32>

// SECOND-LABEL: func.func @main
// SECOND-SAME: %[[X:[a-z0-9]*]]: tensor<?x8xf32> {nn.name = "value.[[N:[0-9]+]].0", nn.sizes = ["tokens", ""]}
// SECOND-SAME: -> (tensor<?x8xf32> {nn.name = "input.layers.1.down"}, tensor<?x8xf32> {nn.name = "value.[[M:[0-9]+]].0"})
// SECOND-SAME: passed = ["value.[[N_ROWS:[0-9]+]].0"]
// SECOND: %[[DOWN:.*]] = nn.weight @weights["down"] : tensor<8x8xbf16>
// SECOND: %[[Y:.*]] = nn.linear %[[X]], %[[DOWN]]
// SECOND: return %[[X]], %[[Y]]

// A linear by a matrix that is no weight has nothing to quantize; sizes are made again.
// LAST-LABEL: func.func @main
// LAST-SAME: linears = [], passed = []
// LAST: tensor.dim
// LAST-NOT: nn.embedding

// Weights may be arguments; a matrix that linears read may have been quantized, so that it is in f32.
// ARGUMENTS-LABEL: func.func @main
// ARGUMENTS-SAME: %{{[a-z0-9]*}}: tensor<9x8xf32> {nn.name = "weight.table"}
// ARGUMENTS-SAME: %{{[a-z0-9]*}}: tensor<8x8xf32> {nn.name = "weight.up"}

// One of them may be kept, which later passes quantize with its input.
// KEPT-LABEL: func.func @main
// KEPT-NOT: "weight.up"
// KEPT-SAME: %{{[a-z0-9]*}}: tensor<8x8xf32> {nn.name = "weight.gate"}
// KEPT: nn.weight @weights["up"] : tensor<8x8xbf16>
// BYTES-LABEL: func.func @main
// BYTES-SAME: {nn.name = "weight.gate"}
// BYTES: nn.quantize %{{.*}} factors {{.*}}unit_scale
// BYTES: %[[UP:.*]] = nn.weight @weights["up"]
// BYTES: nn.quantize %[[UP]] factors

// Results of the function are then results of the segment that computes them.
// RESULTS-LABEL: func.func @main
// RESULTS-SAME: -> (tensor<?x8xf32> {nn.name = "y"})

// NONE: error: 'main' has segments 0 to 2, not
func.func @main(%ids: tensor<?xi64> {nn.name = "ids", nn.sizes = ["tokens"]}, %w: tensor<8x8xbf16> {nn.name = "w"})
    -> (tensor<?x8xf32> {nn.name = "y"}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi64>
  %table = nn.weight @weights["table"] : tensor<9x8xf32>
  %rows = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?xi64>) -> tensor<?x8xf32> loc("embeddings")
  %up = nn.weight @weights["up"] : tensor<8x8xbf16>
  %gate = nn.weight @weights["gate"] : tensor<8x8xbf16>
  %0 = nn.linear %rows, %up : (tensor<?x8xf32>, tensor<8x8xbf16>) -> tensor<?x8xf32> loc("layers.0.up")
  %1 = nn.linear %rows, %gate : (tensor<?x8xf32>, tensor<8x8xbf16>) -> tensor<?x8xf32> loc("layers.0.gate")
  %2 = arith.addf %0, %1 : tensor<?x8xf32>
  %down = nn.weight @weights["down"] : tensor<8x8xbf16>
  %3 = nn.linear %2, %down : (tensor<?x8xf32>, tensor<8x8xbf16>) -> tensor<?x8xf32> loc("layers.1.down")
  %4 = arith.addf %3, %rows : tensor<?x8xf32> loc("head.add")
  %5 = nn.linear %4, %w : (tensor<?x8xf32>, tensor<8x8xbf16>) -> tensor<?x8xf32> loc("head")
  %6 = tensor.expand_shape %5 [[0, 1], [2]] output_shape [%n, 1, 8] : tensor<?x8xf32> into tensor<?x1x8xf32> loc("head")
  %7 = tensor.collapse_shape %6 [[0, 1], [2]] : tensor<?x1x8xf32> into tensor<?x8xf32> loc("head")
  return %7 : tensor<?x8xf32>
}
