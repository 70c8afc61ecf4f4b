// RUN: intarsia-opt %s --pass-pipeline="builtin.module(func.func(legalize-checks))" | FileCheck %s

// Indices are checked once for each operand, whoever computes them: the loops that the op becomes leave out others.
// CHECK-LABEL: @scatter
// CHECK: nn.scatter
// CHECK: linalg.generic {{.+}} ins(%arg1 : tensor<4x?xi64>)
// CHECK: arith.maxui
// CHECK: cf.assert %{{.+}}, "index of 'nn.scatter' in its indices"
func.func @scatter(%x: tensor<4x9xf32>, %i: tensor<4x?xi64>, %u: tensor<4x?xf32>) -> tensor<4x9xf32> {
  %y = nn.scatter <set>, %x, %i, %u {axis = 1} : (tensor<4x9xf32>, tensor<4x?xi64>, tensor<4x?xf32>) -> tensor<4x9xf32>
  return %y : tensor<4x9xf32>
}

// CHECK-LABEL: @slices
// CHECK: nn.scatter_nd
// CHECK-COUNT-2: cf.assert %{{.+}}, "index of 'nn.scatter_nd' in its indices"
// CHECK-NOT: cf.assert
func.func @slices(%x: tensor<4x9xf32>, %i: tensor<3xi32>, %j: tensor<3xi64>, %u: tensor<3xf32>) -> tensor<4x9xf32> {
  %y = nn.scatter_nd <add>, %x[%i, %j], %u : (tensor<4x9xf32>, tensor<3xi32>, tensor<3xi64>, tensor<3xf32>) -> tensor<4x9xf32>
  return %y : tensor<4x9xf32>
}

// Constants are inside.
// CHECK-LABEL: @inside
// CHECK: nn.scatter_nd
// CHECK-NOT: cf.assert
func.func @inside(%x: tensor<4xf32>, %u: tensor<3xf32>) -> tensor<4xf32> {
  %i = arith.constant dense<[0, 3, 3]> : tensor<3xi32>
  %y = nn.scatter_nd <add>, %x[%i], %u : (tensor<4xf32>, tensor<3xi32>, tensor<3xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
