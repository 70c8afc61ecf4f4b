// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @candidates
func.func @candidates(%l: tensor<?x32000xf32>, %t: tensor<?x2xf32>) -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>) {
  // CHECK: nn.candidates %{{.*}}, %{{.*}} {count = 64 : i64} : (tensor<?x32000xf32>, tensor<?x2xf32>) -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>)
  %values, %tokens, %sums = nn.candidates %l, %t {count = 64 : i64} : (tensor<?x32000xf32>, tensor<?x2xf32>) -> (tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>)
  return %values, %tokens, %sums : tensor<?x64xf32>, tensor<?x64xi32>, tensor<?x2xf32>
}
