// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<?x?x384xf16>) {
  // CHECK: nn.softmax %{{.*}} : tensor<?x?x384xf16>
  %3 = nn.softmax %x : tensor<?x?x384xf16>
  return
}
