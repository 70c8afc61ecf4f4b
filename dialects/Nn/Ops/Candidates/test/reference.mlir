// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// Each candidate is found behind the one before; the powers of all logits are summed for each temperature.
// CHECK-LABEL: func.func @candidates
func.func @candidates(%l: tensor<?x8xf32>, %t: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>) {
  // CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<?xf64>)
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}}, %[[FIRST]] : tensor<?x8xf32>, tensor<?xf64>)
  // CHECK: arith.fptosi %{{.*}} : f64 to i32
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<?x2xf64>)
  // CHECK: math.exp %{{.*}} : f64
  // CHECK-NOT: = nn.
  %values, %tokens, %sums = nn.candidates %l, %t {count = 2 : i64} : (tensor<?x8xf32>, tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return %values, %tokens, %sums : tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>
}
