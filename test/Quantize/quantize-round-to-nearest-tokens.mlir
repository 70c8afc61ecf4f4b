// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int8 activations=8-token" | FileCheck %s
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int8 activations=8-wide" | FileCheck %s --check-prefix=WIDE
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int8-g64 activations=8-token" | FileCheck %s --check-prefix=GROUPS

nn.archive @weights {file = "w.safetensors"}

// Linears get weights with a scale for each output feature and inputs with one for each row or for 256 features; the embedding and the head
// keep blocks. Weights with groups that were asked for have them, and inputs by blocks beside them.
// CHECK-LABEL: func.func @encode
// GROUPS-LABEL: func.func @encode
// WIDE-LABEL: func.func @encode
func.func @encode(%ids: tensor<?xi64>) -> (tensor<?x96xf32> {nn.name = "logits"}) {
  // CHECK: nn.quantize {{.*}} {format = #nn.block_format<i8, f16, 32, axis = 1>}
  // CHECK: %[[X:.*]] = nn.embedding
  %t = nn.weight @weights["t"] : tensor<100x64xf32>
  %x = nn.embedding %t, %ids : (tensor<100x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = nn.quantize %[[X]] {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x1xf32>)
  // CHECK: %[[R:.*]] = nn.dequantize %[[XQ]], %[[XS]]
  // CHECK: %[[Q:.*]], %[[S:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<i8, f16, 0, axis = 1>} : (tensor<64x64xf32>) -> (tensor<64x64xi8>, tensor<64x1xf16>)
  // CHECK: %[[W:.*]] = nn.dequantize %[[Q]], %[[S]]
  // CHECK: nn.linear %[[R]], %[[W]]
  // WIDE: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // WIDE: nn.quantize %{{.*}} {format = #nn.block_format<i8, f16, 0, axis = 1>}
  // WIDE: nn.linear
  // WIDE: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // GROUPS-NOT: i8, f32, 0
  // GROUPS: nn.linear
  %a = nn.weight @weights["a"] : tensor<64x64xf32>
  %h = nn.linear %x, %a : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i8, f16, 32, axis = 1>}
  // CHECK: nn.linear
  %b = nn.weight @weights["b"] : tensor<96x64xf32>
  %l = nn.linear %h, %b : (tensor<?x64xf32>, tensor<96x64xf32>) -> tensor<?x96xf32>
  return %l : tensor<?x96xf32>
}
