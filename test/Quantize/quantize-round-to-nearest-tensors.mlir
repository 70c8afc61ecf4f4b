// RUN: intarsia-opt %s --pass-pipeline='builtin.module(func.func(quantize-round-to-nearest{format=none activations=16 tensors=table.weight=int6,up.weight=int4,down.weight=none}))' | FileCheck %s
// RUN: intarsia-opt %s --pass-pipeline='builtin.module(func.func(quantize-round-to-nearest{format=int8 activations=16 tensors=up.weight=int4,down.weight=none}))' | FileCheck %s --check-prefix=BESIDE
// RUN: not intarsia-opt %s --pass-pipeline='builtin.module(func.func(quantize-round-to-nearest{format=none tensors=up.weight=int4,up.weight=int8}))' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not intarsia-opt %s --pass-pipeline='builtin.module(func.func(quantize-round-to-nearest{format=none tensors=up.weight}))' 2>&1 | FileCheck %s --check-prefix=NOTHING

nn.archive @weights {file = "model.safetensors"}

// Tensors that are named have their formats, whatever the others have; "none" leaves one as it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[TABLE:.*]] = nn.weight @weights["table.weight"]
// CHECK: nn.quantize %[[TABLE]] {format = #nn.block_format<i6, f16, 32, axis = 1>}
// CHECK: %[[UP:.*]] = nn.weight @weights["up.weight"]
// CHECK: nn.quantize %[[UP]] {format = #nn.block_format<i4, f16, 32, axis = 1>}
// CHECK: %[[DOWN:.*]] = nn.weight @weights["down.weight"]
// CHECK: nn.linear %{{.*}}, %[[DOWN]]
// CHECK: %[[HEAD:.*]] = nn.weight @weights["head.weight"]
// CHECK: nn.linear %{{.*}}, %[[HEAD]]
// BESIDE: %[[TABLE:.*]] = nn.weight @weights["table.weight"]
// BESIDE: nn.quantize %[[TABLE]] {format = #nn.block_format<i8, f16, 32, axis = 1>}
// BESIDE: nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 1>}
// BESIDE: %[[DOWN:.*]] = nn.weight @weights["down.weight"]
// BESIDE: nn.linear %{{.*}}, %[[DOWN]]
// BESIDE: %[[HEAD:.*]] = nn.weight @weights["head.weight"]
// BESIDE: nn.quantize %[[HEAD]] {format = #nn.block_format<i8, f16, 32, axis = 1>}
// TWICE: error: the format of tensor 'up.weight' is named twice
// NOTHING: error: 'up.weight' names no format of a tensor: KEY=FORMAT does
func.func @main(%ids: tensor<?xi64>) -> tensor<?x64xf32> {
  %table = nn.weight @weights["table.weight"] : tensor<9x64xf32>
  %rows = nn.embedding %table, %ids : (tensor<9x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
  %up = nn.weight @weights["up.weight"] : tensor<64x64xf32>
  %0 = nn.linear %rows, %up : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %down = nn.weight @weights["down.weight"] : tensor<64x64xf32>
  %1 = nn.linear %0, %down : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %head = nn.weight @weights["head.weight"] : tensor<64x64xf32>
  %2 = nn.linear %1, %head : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %2 : tensor<?x64xf32>
}
