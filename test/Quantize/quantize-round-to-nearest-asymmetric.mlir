// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int4-asymmetric-g64" | FileCheck %s
// RUN: not intarsia-opt %s --quantize-round-to-nearest="format=int4-asymmetric-channel" 2>&1 | FileCheck %s --check-prefix=CHANNEL

nn.archive @weights {file = "w.safetensors"}

// Weights are integers without a sign, whose blocks have zero points; inputs of 8 bits have none.
// CHANNEL: error: unknown weight format 'int4-asymmetric-channel', zero points are those of groups of 32, 64 or 128
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x128xf32>) -> tensor<?x64xf32> {
  // CHECK: nn.quantize %arg0 {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x128xf32>) -> (tensor<?x128xi8>, tensor<?x1xf32>)
  // CHECK: %[[Q:.*]], %[[S:.*]], %[[Z:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<u4, f16, 64, axis = 1>} : (tensor<64x128xf16>) -> (tensor<64x128xi4>, tensor<64x2xf16>, tensor<64x2xi4>)
  // CHECK: %[[W:.*]] = nn.dequantize %[[Q]], %[[S]] zero_points %[[Z]]
  // CHECK: nn.linear %{{.*}}, %[[W]]
  %w = nn.weight @weights["w"] : tensor<64x128xf16>
  %h = nn.linear %x, %w : (tensor<?x128xf32>, tensor<64x128xf16>) -> tensor<?x64xf32>
  return %h : tensor<?x64xf32>
}
