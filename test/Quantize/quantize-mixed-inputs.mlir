// RUN: intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-round-to-nearest{format=int4 parts=linears},quantize-mixed-inputs{inputs=1/2-0-1/q+k,0/1-0/down,1/0-1/up}))" | FileCheck %s
// RUN: intarsia-opt %s --intarsia-quantize="format=int4 parts=linears activations=fmpq inputs=1/2-0-1/q+k,0/1-0/down,1/0-1/up" | FileCheck %s

nn.archive @weights {file = "w.safetensors"}

// Linears with one input share what it is quantized to; a weight is quantized in the order of its input's features. A
// linear that nothing is said of keeps blocks of 8 bits, and nothing is left of what these were. An order that is that
// of the model needs no channels.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<?x3xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x3xf32>, tensor<?x3xf32>) {
  // CHECK-DAG: %[[P:.*]] = arith.constant dense<[2, 0, 1]> : tensor<3xi32>
  // CHECK-DAG: %[[R:.*]] = arith.constant dense<[1, 0]> : tensor<2xi32>
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = nn.quantize %arg0 channels %[[P]] {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1 : i64}
  // CHECK: %[[X:.*]] = nn.dequantize %[[XQ]], %[[XS]]
  // CHECK: nn.weight @weights["q"]
  // CHECK: %[[QQ:.*]], %[[QS:.*]] = nn.quantize %{{.*}} channels %[[P]] {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<2x3xf32>, tensor<3xi32>)
  // CHECK: %[[Q:.*]] = nn.dequantize %[[QQ]], %[[QS]]
  // CHECK: %[[H:.*]] = nn.linear %[[X]], %[[Q]]
  // CHECK-DAG: nn.quantize %[[H]] channels %[[R]] {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 0 : i64}
  // CHECK-DAG: %[[VQ:.*]], %[[VS:.*]] = nn.quantize %[[H]] {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1 : i64}
  // CHECK-DAG: %[[V:.*]] = nn.dequantize %[[VQ]], %[[VS]]
  // CHECK: nn.weight @weights["k"]
  // CHECK-NOT: nn.quantize %arg0
  // CHECK: nn.quantize %{{.*}} channels %[[P]] {format = #nn.block_format<i4
  // CHECK: nn.linear %[[X]]
  // CHECK: nn.quantize %{{.*}} channels %[[R]] {format = #nn.block_format<i4
  // CHECK: %[[D:.*]] = nn.linear
  // CHECK: nn.quantize %[[D]] {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK: nn.dequantize %{{.*}} {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK-NOT: i8, f32
  // CHECK: nn.weight @weights["up"]
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i4
  // CHECK: nn.linear %[[V]]
  // CHECK: return
  %q = nn.weight @weights["q"] : tensor<2x3xf32>
  %h = nn.linear %x, %q : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x2xf32>
  %k = nn.weight @weights["k"] : tensor<2x3xf32>
  %i = nn.linear %x, %k : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x2xf32>
  %down = nn.weight @weights["down"] : tensor<3x2xf32>
  %d = nn.linear %h, %down : (tensor<?x2xf32>, tensor<3x2xf32>) -> tensor<?x3xf32>
  %o = nn.weight @weights["o"] : tensor<2x3xf32>
  %r = nn.linear %d, %o : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x2xf32>
  %up = nn.weight @weights["up"] : tensor<3x2xf32>
  %u = nn.linear %h, %up : (tensor<?x2xf32>, tensor<3x2xf32>) -> tensor<?x3xf32>
  return %i, %r, %d, %u : tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x3xf32>, tensor<?x3xf32>
}
