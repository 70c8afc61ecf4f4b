// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<?x384xf32>, %w: tensor<1536x384xf32>) -> tensor<?x1536xf32> {
  // CHECK: nn.group linear(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) {why = "gelu: 6.2 us inside, 9.8 apart"} : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
  // CHECK-NEXT: nn.linear %[[A]], %[[B]]
  %r = nn.group linear(%a = %x, %b = %w) {why = "gelu: 6.2 us inside, 9.8 apart"}
      : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
    %h = nn.linear %a, %b : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32>
    %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
    // CHECK: nn.yield %{{.*}} : tensor<?x1536xf32>
    nn.yield %g : tensor<?x1536xf32>
  }
  return %r : tensor<?x1536xf32>
}
