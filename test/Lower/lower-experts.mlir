// RUN: intarsia-opt %s --target-declare-devices --intarsia-fuse --lower-groups-to-kernels --split-input-file | FileCheck %s

// Weights of experts that are stored one by one are concatenated and stored in panels, biases in rows.

nn.archive @weights {file = "model.safetensors"}
// CHECK-DAG: rt.constant @"0.gate.concatenated.panels" layout(#rt.panels<32>) : tensor<2x2x48x64xf32> {
// CHECK-DAG: rt.constant @down.panels layout(#rt.panels<32>) : tensor<2x64x48xf32> {
// CHECK-DAG: rt.constant @bias layout(#rt.row_major) : tensor<2x64xf32> {
// CHECK: rt.kernel @experts
// CHECK-SAME: tensor<2x2x48x64xf32> {rt.gathered = 1 : i64, rt.layout = #rt.panels<32>}, %{{.*}}: tensor<2x64x48xf32> {rt.gathered = 1 : i64, rt.layout = #rt.panels<32>}, %{{.*}}: tensor<2x64xf32> {rt.layout = #rt.row_major}
// CHECK-SAME: root = #nn.root<experts>
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}, %i: tensor<?x1xi32> {nn.sizes = ["tokens", ""]}, %w: tensor<?x1xf32> {nn.sizes = ["tokens", ""]}) -> tensor<?x64xf32> {
  %g0 = nn.weight @weights["0.gate"] : tensor<48x64xf32>
  %u0 = nn.weight @weights["0.up"] : tensor<48x64xf32>
  %g1 = nn.weight @weights["1.gate"] : tensor<48x64xf32>
  %u1 = nn.weight @weights["1.up"] : tensor<48x64xf32>
  %down = nn.weight @weights["down"] : tensor<2x64x48xf32>
  %bias = nn.weight @weights["bias"] : tensor<2x64xf32>
  %concatenated = tensor.concat dim(0) %g0, %u0, %g1, %u1 : (tensor<48x64xf32>, tensor<48x64xf32>, tensor<48x64xf32>, tensor<48x64xf32>) -> tensor<192x64xf32>
  %gate_up = tensor.expand_shape %concatenated [[0, 1, 2], [3]] output_shape [2, 2, 48, 64] : tensor<192x64xf32> into tensor<2x2x48x64xf32>
  %y = nn.experts %x, %i, %w, %gate_up, %down down_bias %bias {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x48x64xf32>, tensor<2x64x48xf32>, tensor<2x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Gates of all experts and what they gate, as GGUF files have them: matrices of two tensors by turns.

nn.archive @weights {file = "model.safetensors"}
// CHECK: rt.constant @gate.concatenated.panels layout(#rt.panels<32>) : tensor<2x2x48x64xf32> {
// CHECK: linalg.transpose ins({{.*}} : tensor<2x2x48x64xf32>) {{.*}} permutation = [1, 0, 2, 3]
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}, %i: tensor<?x1xi32> {nn.sizes = ["tokens", ""]}, %w: tensor<?x1xf32> {nn.sizes = ["tokens", ""]}, %down: tensor<2x64x48xf32>) -> tensor<?x64xf32> {
  %gate = nn.weight @weights["gate"] : tensor<2x48x64xf32>
  %up = nn.weight @weights["up"] : tensor<2x48x64xf32>
  %concatenated = tensor.concat dim(0) %gate, %up : (tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> tensor<4x48x64xf32>
  %parts = tensor.expand_shape %concatenated [[0, 1], [2], [3]] output_shape [2, 2, 48, 64] : tensor<4x48x64xf32> into tensor<2x2x48x64xf32>
  %e = tensor.empty() : tensor<2x2x48x64xf32>
  %gate_up = linalg.transpose ins(%parts : tensor<2x2x48x64xf32>) outs(%e : tensor<2x2x48x64xf32>) permutation = [1, 0, 2, 3]
  %y = nn.experts %x, %i, %w, %gate_up, %down {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x48x64xf32>, tensor<2x64x48xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// A tensor of matrices that are transposed, their columns gate and up by turns, is read by its strides.

nn.archive @weights {file = "model.safetensors"}
// CHECK: rt.constant @gate_up.panels layout(#rt.panels<32>) : tensor<2x2x48x64xf32> {
// CHECK: tensor.expand_shape {{.*}} : tensor<2x64x96xf32> into tensor<2x64x48x2xf32>
// CHECK: linalg.transpose {{.*}} permutation = [0, 3, 2, 1]
// CHECK: rt.constant @bias layout(#rt.row_major) : tensor<2x2x48xf32> {
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}, %i: tensor<?x1xi32> {nn.sizes = ["tokens", ""]}, %w: tensor<?x1xf32> {nn.sizes = ["tokens", ""]}, %down: tensor<2x64x48xf32>) -> tensor<?x64xf32> {
  %stored = nn.weight @weights["gate_up"] : tensor<2x64x96xf32>
  %columns = tensor.expand_shape %stored [[0], [1], [2, 3]] output_shape [2, 64, 48, 2] : tensor<2x64x96xf32> into tensor<2x64x48x2xf32>
  %e0 = tensor.empty() : tensor<2x2x48x64xf32>
  %gate_up = linalg.transpose ins(%columns : tensor<2x64x48x2xf32>) outs(%e0 : tensor<2x2x48x64xf32>) permutation = [0, 3, 2, 1]
  %b = nn.weight @weights["bias"] : tensor<2x96xf32>
  %pairs = tensor.expand_shape %b [[0], [1, 2]] output_shape [2, 48, 2] : tensor<2x96xf32> into tensor<2x48x2xf32>
  %e1 = tensor.empty() : tensor<2x2x48xf32>
  %bias = linalg.transpose ins(%pairs : tensor<2x48x2xf32>) outs(%e1 : tensor<2x2x48xf32>) permutation = [0, 2, 1]
  %y = nn.experts %x, %i, %w, %gate_up, %down gate_up_bias %bias {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x48x64xf32>, tensor<2x64x48xf32>, tensor<2x2x48xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Gate and up in blocks, by turns, and a second matrix that is quantized: panels of quantized values, the format is that of a matrix.

nn.archive @weights {file = "model.safetensors"}
// CHECK: rt.constant @gate.concatenated.panels layout(#rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>) : tensor<2x2x64x64xf32> {
// CHECK: rt.constant @down.panels layout(#rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>) : tensor<2x64x64xf32> {
// CHECK: rt.kernel @experts
// CHECK: nn.quantize
// CHECK: nn.experts
func.func @main(%x: tensor<?x64xf32> {nn.sizes = ["tokens", ""]}, %i: tensor<?x1xi32> {nn.sizes = ["tokens", ""]}, %w: tensor<?x1xf32> {nn.sizes = ["tokens", ""]}) -> tensor<?x64xf32> {
  %gb = nn.weight @weights["gate"] : tensor<2x64x36xi8>
  %gate = nn.dequantize %gb {format = #nn.ggml_type<q4_0>} : (tensor<2x64x36xi8>) -> tensor<2x64x64xf32>
  %ub = nn.weight @weights["up"] : tensor<2x64x36xi8>
  %up = nn.dequantize %ub {format = #nn.ggml_type<q4_0>} : (tensor<2x64x36xi8>) -> tensor<2x64x64xf32>
  %concatenated = tensor.concat dim(0) %gate, %up : (tensor<2x64x64xf32>, tensor<2x64x64xf32>) -> tensor<4x64x64xf32>
  %parts = tensor.expand_shape %concatenated [[0, 1], [2], [3]] output_shape [2, 2, 64, 64] : tensor<4x64x64xf32> into tensor<2x2x64x64xf32>
  %e = tensor.empty() : tensor<2x2x64x64xf32>
  %gate_up = linalg.transpose ins(%parts : tensor<2x2x64x64xf32>) outs(%e : tensor<2x2x64x64xf32>) permutation = [1, 0, 2, 3]
  %d = nn.weight @weights["down"] : tensor<2x64x64xf32>
  %dc, %ds = nn.quantize %d {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<2x64x64xf32>) -> (tensor<2x64x64xi8>, tensor<2x64x2xf16>)
  %down = nn.dequantize %dc, %ds {format = #nn.block_format<i8, f16, 32, axis = 2>} : (tensor<2x64x64xi8>, tensor<2x64x2xf16>) -> tensor<2x64x64xf32>
  %xc, %xs = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %xr = nn.dequantize %xc, %xs {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  %y = nn.experts %xr, %i, %w, %gate_up, %down {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x64x64xf32>, tensor<2x64x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
