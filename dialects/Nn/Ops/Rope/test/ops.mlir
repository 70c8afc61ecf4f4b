// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @rope
func.func @rope(%q: tensor<?x?x8x64xf32>, %ids: tensor<?x?xi64>, %f: tensor<16xf32>) {
  // CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  %1 = nn.rope %q, %ids, %f : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  // CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} {attention_factor = 1.500000e+00 : f32, interleaved}
  %2 = nn.rope %q, %ids, %f {attention_factor = 1.5 : f32, interleaved} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  return
}
