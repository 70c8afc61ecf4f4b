// RUN: intarsia-opt %s --split-input-file --quantize-round-to-nearest | FileCheck %s
// RUN: intarsia-opt %s --split-input-file --quantize-round-to-nearest="format=nvfp4 activations=16 parts=lm_head=nvfp4" | FileCheck %s --check-prefix=HEAD
// RUN: intarsia-opt %s --split-input-file --quantize-round-to-nearest="parts=linears,lm_head=int4,embedding" | FileCheck %s --check-prefix=NAMED
// RUN: intarsia-opt %s --split-input-file --intarsia-quantize="format=none" | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --split-input-file --quantize-round-to-nearest="format=int3" 2>&1 | FileCheck %s --check-prefix=WRONG

// WRONG: error: unknown weight format 'int3': the formats are int4, int4-asymmetric, int5, int6, int8
// NONE-NOT: nn.quantize

nn.archive @weights {file = "w.safetensors"}

// Two linears of one input, which is quantized once. The table and the head are one matrix, stored once: of 8 bits, if
// neither of them names a format.
// CHECK-LABEL: func.func @step
// HEAD-LABEL: func.func @step
// NAMED-LABEL: func.func @step
func.func @step(%ids: tensor<?xi64> {nn.name = "ids", nn.sizes = ["n"]}) -> (tensor<?x96xf32> {nn.name = "logits"}) {
  // CHECK: %[[TABLE:.*]] = nn.weight @weights["table"]
  // CHECK: %[[QUANTIZED:.*]], %[[SCALES:.*]] = nn.quantize %[[TABLE]] {format = #nn.block_format<i6, f16, 32, axis = 1>} : (tensor<96x64xbf16>) -> (tensor<96x64xi8>, tensor<96x2xf16>)
  // NAMED: nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<96x64xbf16>)
  // CHECK: %[[DEQUANTIZED:.*]] = nn.dequantize %[[QUANTIZED]], %[[SCALES]] {{.*}} -> tensor<96x64xf32>
  // CHECK: %[[ROWS:.*]] = nn.embedding %[[DEQUANTIZED]], %{{.*}} : (tensor<96x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
  // CHECK-NOT: arith.extf
  // HEAD: nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<96x64xbf16>) -> (tensor<96x64xi4>, tensor<96x4xi8>, tensor<f32>)
  // HEAD: nn.embedding %{{.*}} -> tensor<?x64xf32>
  %table = nn.weight @weights["table"] : tensor<96x64xbf16>
  %e = nn.embedding %table, %ids : (tensor<96x64xbf16>, tensor<?xi64>) -> tensor<?x64xbf16>
  %x = arith.extf %e : tensor<?x64xbf16> to tensor<?x64xf32>
  // CHECK: %[[XC:.*]], %[[XS:.*]] = nn.quantize %[[ROWS]] {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK: %[[X:.*]] = nn.dequantize %[[XC]], %[[XS]]
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x64xf16>)
  // CHECK: nn.linear %[[X]], %{{.*}} : (tensor<?x64xf32>, tensor<64x64xf32>)
  // CHECK-NOT: nn.quantize %[[ROWS]]
  // CHECK: nn.linear %[[X]], %{{.*}} : (tensor<?x64xf32>, tensor<64x64xf32>)
  // HEAD-NOT: nn.quantize
  // HEAD: nn.linear %{{.*}}, %{{.*}} : (tensor<?x64xf32>, tensor<64x64xf16>)
  // HEAD: nn.linear %{{.*}}, %{{.*}} : (tensor<?x64xf32>, tensor<64x64xf16>)
  %a = nn.weight @weights["a"] : tensor<64x64xf16>
  %b = nn.weight @weights["b"] : tensor<64x64xf16>
  %p = nn.linear %x, %a : (tensor<?x64xf32>, tensor<64x64xf16>) -> tensor<?x64xf32>
  %q = nn.linear %x, %b : (tensor<?x64xf32>, tensor<64x64xf16>) -> tensor<?x64xf32>
  %h = arith.addf %p, %q : tensor<?x64xf32>
  // CHECK: nn.linear %{{.*}}, %[[DEQUANTIZED]] : (tensor<?x64xf32>, tensor<96x64xf32>)
  // HEAD-NOT: nn.quantize
  // HEAD: nn.linear %{{.*}}, %{{.*}} : (tensor<?x64xf32>, tensor<96x64xf32>)
  %again = nn.weight @weights["table"] : tensor<96x64xbf16>
  %l = nn.linear %h, %again : (tensor<?x64xf32>, tensor<96x64xbf16>) -> tensor<?x96xf32>
  return %l : tensor<?x96xf32>
}

// Another function quantizes its inputs itself.
// CHECK-LABEL: func.func @embed
func.func @embed(%ids: tensor<?xi64> {nn.name = "ids", nn.sizes = ["n"]}) -> tensor<?x64xbf16> {
  // CHECK: nn.quantize
  // CHECK: nn.embedding
  %table = nn.weight @weights["table"] : tensor<96x64xbf16>
  %e = nn.embedding %table, %ids : (tensor<96x64xbf16>, tensor<?xi64>) -> tensor<?x64xbf16>
  return %e : tensor<?x64xbf16>
}

// -----

// A matrix that no archive holds is not quantized, nor is the input of its linear. A narrow embedding stays narrow.
// CHECK-LABEL: func.func @computed
func.func @computed(%x: tensor<4x64xf32> {nn.name = "x"}, %w: tensor<8x64xf32> {nn.name = "w"}, %ids: tensor<2xi64> {nn.name = "ids"})
    -> (tensor<4x8xf32>, tensor<2x64xf16>) {
  // CHECK: nn.linear %arg0, %arg1
  %y = nn.linear %x, %w : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<4x8xf32>
  // CHECK: nn.embedding %{{.*}} -> tensor<2x64xf32>
  // CHECK: arith.truncf %{{.*}} : tensor<2x64xf32> to tensor<2x64xf16>
  %t = nn.weight @weights["table"] : tensor<96x64xf16>
  %e = nn.embedding %t, %ids : (tensor<96x64xf16>, tensor<2xi64>) -> tensor<2x64xf16>
  return %y, %e : tensor<4x8xf32>, tensor<2x64xf16>
}
nn.archive @weights {file = "w.safetensors"}

// -----

// Experts: each stored tensor is quantized where its rows are whole, behind what moves rows; those that are stored as
// columns once they are rows. Activations are quantized before both linears. The router stays as it is.
nn.archive @weights {file = "w.safetensors"}
// CHECK-LABEL: func.func @experts
// HEAD-LABEL: func.func @experts
// HEAD-NOT: nn.quantize
func.func @experts(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> tensor<?x64xf32> {
  // CHECK: %[[XC:.*]], %[[XS:.*]] = nn.quantize %arg0 {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // CHECK: %[[X:.*]] = nn.dequantize %[[XC]], %[[XS]]
  %r = nn.weight @weights["router"] : tensor<2x64xf32>
  %g = nn.weight @weights["gate"] : tensor<2x96x64xbf16>
  %u = nn.weight @weights["up"] : tensor<2x96x64xbf16>
  %d = nn.weight @weights["down"] : tensor<2x96x64xbf16>
  %l = nn.linear %x, %r : (tensor<?x64xf32>, tensor<2x64xf32>) -> tensor<?x2xf32>
  %i, %w = nn.route %l {normalize, top_k = 1 : i64} : (tensor<?x2xf32>) -> (tensor<?x1xi32>, tensor<?x1xf32>)
  // CHECK: %[[GC:.*]], %[[GS:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 2>} : (tensor<2x96x64xbf16>) -> (tensor<2x96x64xi4>, tensor<2x96x2xf16>)
  // CHECK: %[[G:.*]] = nn.dequantize %[[GC]], %[[GS]]
  // CHECK: nn.linear %arg0, %{{.*}} : (tensor<?x64xf32>, tensor<2x64xf32>)
  // CHECK: %[[J:.*]] = tensor.concat dim(0) %[[G]], %{{.*}} : (tensor<2x96x64xf32>, tensor<2x96x64xf32>) -> tensor<4x96x64xf32>
  // CHECK: %[[P:.*]] = tensor.expand_shape %[[J]]
  // CHECK: %[[T:.*]] = linalg.transpose ins(%[[P]] : tensor<2x2x96x64xf32>)
  // CHECK: %[[DT:.*]] = linalg.transpose ins(%{{.*}} : tensor<2x96x64xbf16>)
  // CHECK: %[[DC:.*]], %[[DS:.*]] = nn.quantize %[[DT]] {format = #nn.block_format<i4, f16, 32, axis = 2>} : (tensor<2x64x96xbf16>)
  // CHECK: %[[D:.*]] = nn.dequantize %[[DC]], %[[DS]]
  // CHECK: nn.experts %[[X]], %{{.*}}, %{{.*}}, %[[T]], %[[D]] {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>}
  %concatenated = tensor.concat dim(0) %g, %u : (tensor<2x96x64xbf16>, tensor<2x96x64xbf16>) -> tensor<4x96x64xbf16>
  %parts = tensor.expand_shape %concatenated [[0, 1], [2], [3]] output_shape [2, 2, 96, 64] : tensor<4x96x64xbf16> into tensor<2x2x96x64xbf16>
  %e = tensor.empty() : tensor<2x2x96x64xbf16>
  %gu = linalg.transpose ins(%parts : tensor<2x2x96x64xbf16>) outs(%e : tensor<2x2x96x64xbf16>) permutation = [1, 0, 2, 3]
  %f = tensor.empty() : tensor<2x64x96xbf16>
  %dt = linalg.transpose ins(%d : tensor<2x96x64xbf16>) outs(%f : tensor<2x64x96xbf16>) permutation = [0, 2, 1]
  %y = nn.experts %x, %i, %w, %gu, %dt {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x96x64xbf16>, tensor<2x64x96xbf16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
