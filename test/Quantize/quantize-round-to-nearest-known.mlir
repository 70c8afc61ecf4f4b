// RUN: intarsia-opt %s --quantize-round-to-nearest="format=int4" | FileCheck %s

// A product whose factors the model itself has quantized stays as it is: kernels multiply no other pairs of formats.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.block_format<i4
// CHECK: %[[W:.*]] = nn.dequantize %{{.*}}, %{{.*}} {format = #nn.archive_format<rows, i8, group = 0, kept = <i8, f32, 0, axis = 1>>}
// CHECK: %[[X:.*]] = nn.dequantize %{{.*}}, %{{.*}} {format = #nn.block_format<i8, f32, 0, axis = 1>}
// CHECK: nn.linear %[[X]], %[[W]]
nn.archive @weights {file = "w.safetensors"}
func.func @main(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %q = nn.weight @weights["w"] : tensor<32x64xi8>
  %s = nn.weight @weights["s"] : tensor<32x1xf32>
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, i8, group = 0, kept = <i8, f32, 0, axis = 1>>} : (tensor<32x64xi8>, tensor<32x1xf32>) -> tensor<32x64xf32>
  %i, %u = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x1xf32>)
  %d = nn.dequantize %i, %u {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x64xi8>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %y = nn.linear %d, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
