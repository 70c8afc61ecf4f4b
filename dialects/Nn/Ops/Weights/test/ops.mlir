// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK: nn.archive @weights {file = "model.safetensors"}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @weight
func.func @weight() {
  // CHECK: nn.weight @weights["dense.weight"] : tensor<1536x384xf32>
  %w = nn.weight @weights["dense.weight"] : tensor<1536x384xf32>
  // CHECK: nn.weight @weights["values"] : tensor<4x64xi4>
  %v = nn.weight @weights["values"] : tensor<4x64xi4>
  return
}
