// RUN: intarsia-opt %s --quantize-round-to-nearest="format=nvfp4 activations=nvfp4" | FileCheck %s --check-prefixes=CHECK,NVFP4
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=mxfp4 activations=mxfp4" | FileCheck %s --check-prefixes=CHECK,MXFP4
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=mxfp4 parts=linears,lm_head=nvfp4 activations=nvfp4" | FileCheck %s --check-prefix=HEAD

nn.archive @weights {file = "w.safetensors"}

// Inputs get the format of the weight: of nvfp4 a scale for each row, where the weight has one for the matrix. The head has
// int6 by default, and its input stays as it is.
// CHECK-LABEL: func.func @step
// HEAD-LABEL: func.func @step
func.func @step(%x: tensor<?x?x64xf32>) -> (tensor<?x?x96xf32> {nn.name = "logits"}) {
  // NVFP4-DAG: nn.quantize %arg0 {format = #nn.block_format<e2m1, e4m3, 16, axis = 2>} : (tensor<?x?x64xf32>) -> (tensor<?x?x64xi4>, tensor<?x?x4xi8>, tensor<?x?x1xf32>)
  // NVFP4-DAG: nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x64xf16>) -> (tensor<64x64xi4>, tensor<64x4xi8>, tensor<f32>)
  // MXFP4-DAG: nn.quantize %arg0 {format = #nn.block_format<e2m1, e8m0, 32, axis = 2>} : (tensor<?x?x64xf32>) -> (tensor<?x?x64xi4>, tensor<?x?x2xi8>)
  // MXFP4-DAG: nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>}
  // CHECK: %[[H:.*]] = nn.linear
  // CHECK-NOT: nn.quantize %[[H]]
  // HEAD-NOT: nn.quantize %arg0
  // HEAD: %[[H:.*]] = nn.linear %arg0
  // HEAD: nn.quantize %[[H]] {format = #nn.block_format<e2m1, e4m3, 16, axis = 2>}
  %a = nn.weight @weights["a"] : tensor<64x64xf16>
  %h = nn.linear %x, %a : (tensor<?x?x64xf32>, tensor<64x64xf16>) -> tensor<?x?x64xf32>
  %b = nn.weight @weights["b"] : tensor<96x64xf16>
  %l = nn.linear %h, %b : (tensor<?x?x64xf32>, tensor<96x64xf16>) -> tensor<?x?x96xf32>
  return %l : tensor<?x?x96xf32>
}
