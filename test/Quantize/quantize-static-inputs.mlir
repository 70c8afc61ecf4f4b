// RUN: intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-round-to-nearest{format=int8-channel activations=8-wide parts=linears},quantize-static-inputs{inputs=3F800000-40000000/q+k,3E800000/down}))" | FileCheck %s
// RUN: intarsia-opt %s --intarsia-quantize="format=int8 parts=linears activations=8-static static-inputs=3F800000-40000000/q+k,3E800000/down" | FileCheck %s

nn.archive @weights {file = "w.safetensors"}

// Linears with one input share what it is quantized to; weights are multiplied by the reciprocals. A linear that nothing
// is said of finds its scales at the call.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x2xf32>) -> (tensor<?x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {
  // CHECK-DAG: %[[R:.*]] = arith.constant dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf32>
  // CHECK-DAG: %[[F:.*]] = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  // CHECK-DAG: %[[DR:.*]] = arith.constant dense<4.000000e+00> : tensor<1xf32>
  // CHECK-DAG: %[[DF:.*]] = arith.constant dense<2.500000e-01> : tensor<1xf32>
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = nn.quantize %arg0 factors %[[R]] {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale}
  // CHECK: %[[X:.*]] = nn.dequantize %[[XQ]], %[[XS]]
  // CHECK: nn.weight @weights["q"]
  // CHECK: nn.quantize %{{.*}} factors %[[F]] {format = #nn.block_format<i8, f32, 0, axis = 1>}
  // CHECK: %[[H:.*]] = nn.linear %[[X]]
  // CHECK: nn.quantize %[[H]] factors %[[DR]] {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale}
  // CHECK: nn.weight @weights["k"]
  // CHECK-NOT: nn.quantize %arg0
  // CHECK: nn.quantize %{{.*}} factors %[[F]] {format = #nn.block_format<i8, f32, 0, axis = 1>}
  // CHECK: nn.linear %[[X]]
  // CHECK: nn.quantize %{{.*}} factors %[[DF]] {format = #nn.block_format<i8, f32, 0, axis = 1>}
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK: nn.weight @weights["o"]
  %q = nn.weight @weights["q"] : tensor<1x2xf32>
  %h = nn.linear %x, %q : (tensor<?x2xf32>, tensor<1x2xf32>) -> tensor<?x1xf32>
  %k = nn.weight @weights["k"] : tensor<1x2xf32>
  %i = nn.linear %x, %k : (tensor<?x2xf32>, tensor<1x2xf32>) -> tensor<?x1xf32>
  %down = nn.weight @weights["down"] : tensor<2x1xf32>
  %d = nn.linear %h, %down : (tensor<?x1xf32>, tensor<2x1xf32>) -> tensor<?x2xf32>
  %o = nn.weight @weights["o"] : tensor<2x2xf32>
  %r = nn.linear %d, %o : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  return %i, %d, %r : tensor<?x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>
}
