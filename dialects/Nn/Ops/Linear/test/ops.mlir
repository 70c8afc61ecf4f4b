// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<?x?x384xf32>, %w: tensor<1536x384xf32>, %bias: tensor<1536xf32>) {
  // CHECK: nn.linear %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
  %h = nn.linear %x, %w, %bias : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  %g = nn.linear %x, %w : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} {precision = bf16} :
  %p = nn.linear %x, %w {precision = bf16} : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  return
}
