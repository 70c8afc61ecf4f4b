// RUN: intarsia-opt %s --target-declare-devices --intarsia-fuse | FileCheck %s --check-prefix=FUSED
// RUN: intarsia-opt %s --target-declare-devices --intarsia-fuse --intarsia-lower | FileCheck %s

nn.archive @weights {file = "model.gguf"}

// Matmuls and tables read what nn.dequantize gives: it stays outside of groups, for kernels that read blocks.
// FUSED-LABEL: func.func @main
// FUSED: %[[T:.*]] = nn.dequantize %{{.*}} {format = #nn.ggml_type<q5_1>}
// FUSED: nn.group rows({{.*}} = %[[T]]
// FUSED: %[[W:.*]] = nn.dequantize %{{.*}} {format = #nn.ggml_type<q4_0>}
// FUSED: nn.group linear({{.*}} = %[[W]]

// What is read as dense elements is decoded at compile time, but for types whose blocks panels can hold.
// CHECK-DAG: rt.constant @table layout(#rt.row_major) : tensor<99x256xf32> {
// CHECK-DAG: rt.constant @w.panels layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<40x256xf32> {
// CHECK-DAG: rt.constant @a.concatenated.panels layout(#rt.panels<32>) : tensor<4x256xf32> {
// CHECK-DAG: rt.constant @k.panels layout(#rt.panels<32, #nn.ggml_type<q4_k>>) : tensor<8x256xf32> {
func.func @main(%ids: tensor<?xi64> {nn.name = "ids", nn.sizes = ["n"]}) -> (tensor<?x40xf32> {nn.name = "y"}, tensor<?x4xf32> {nn.name = "z"}, tensor<?x8xf32> {nn.name = "k"}) {
  %tb = nn.weight @weights["table"] : tensor<99x192xi8>
  %t = nn.dequantize %tb {format = #nn.ggml_type<q5_1>} : (tensor<99x192xi8>) -> tensor<99x256xf32>
  %x = nn.embedding %t, %ids : (tensor<99x256xf32>, tensor<?xi64>) -> tensor<?x256xf32>
  %wb = nn.weight @weights["w"] : tensor<40x144xi8>
  %w = nn.dequantize %wb {format = #nn.ggml_type<q4_0>} : (tensor<40x144xi8>) -> tensor<40x256xf32>
  %y = nn.linear %x, %w : (tensor<?x256xf32>, tensor<40x256xf32>) -> tensor<?x40xf32>
  %ab = nn.weight @weights["a"] : tensor<1x272xi8>
  %a = nn.dequantize %ab {format = #nn.ggml_type<q8_0>} : (tensor<1x272xi8>) -> tensor<1x256xf32>
  %b = nn.weight @weights["b"] : tensor<3x256xf32>
  %j = tensor.concat dim(0) %a, %b : (tensor<1x256xf32>, tensor<3x256xf32>) -> tensor<4x256xf32>
  %z = nn.linear %x, %j : (tensor<?x256xf32>, tensor<4x256xf32>) -> tensor<?x4xf32>
  %kb = nn.weight @weights["k"] : tensor<8x144xi8>
  %kw = nn.dequantize %kb {format = #nn.ggml_type<q4_k>} : (tensor<8x144xi8>) -> tensor<8x256xf32>
  %k = nn.linear %x, %kw : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  return %y, %z, %k : tensor<?x40xf32>, tensor<?x4xf32>, tensor<?x8xf32>
}
