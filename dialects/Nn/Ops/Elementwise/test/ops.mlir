// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<?x1536xf32>) {
  // CHECK: nn.gelu %{{.*}} {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
  %0 = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
  // CHECK: nn.gelu %{{.*}} {form = #nn.gelu_form<tanh>} : tensor<?x1536xf32>
  %1 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<?x1536xf32>
  // CHECK: nn.silu %{{.*}} : tensor<?x1536xf32>
  %2 = nn.silu %x : tensor<?x1536xf32>
  // CHECK: nn.relu %{{.*}} : tensor<?x1536xf32>
  %3 = nn.relu %x : tensor<?x1536xf32>
  // CHECK: nn.tanh %{{.*}} : tensor<?x1536xf32>
  %4 = nn.tanh %x : tensor<?x1536xf32>
  // CHECK: nn.sigmoid %{{.*}} : tensor<?x1536xf32>
  %5 = nn.sigmoid %x : tensor<?x1536xf32>
  return
}
