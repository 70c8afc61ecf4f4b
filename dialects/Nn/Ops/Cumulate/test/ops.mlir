// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @cumulate
func.func @cumulate(%x: tensor<4x?xf16>, %i: tensor<?xi8>) {
  // CHECK: nn.cumulate <add>, %{{.+}} : tensor<4x?xf16>
  // CHECK: nn.cumulate <maxui>, %{{.+}} {exclusive, reverse} : tensor<?xi8>
  %y = nn.cumulate <add>, %x : tensor<4x?xf16>
  %j = nn.cumulate <maxui>, %i {exclusive, reverse} : tensor<?xi8>
  return
}
