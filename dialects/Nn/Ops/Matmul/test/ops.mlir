// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<?x4x8xf32>, %b: tensor<?x16x8xf32>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
  %c = nn.matmul %a, %b {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  %d = nn.matmul %a, %c {transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {precision = tf32, transpose_lhs} :
  %e = nn.matmul %a, %c {precision = tf32, transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  return
}
