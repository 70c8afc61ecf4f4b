// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Each element is combined in f64 with those up to it, and rounded once.
// CHECK-LABEL: func.func @sums
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.cmpi ule
// CHECK: arith.addf %{{.+}} : f64
// CHECK: arith.truncf
func.func @sums(%x: tensor<4x?xf16>) -> tensor<4x?xf16> {
  %y = nn.cumulate <add>, %x : tensor<4x?xf16>
  return %y : tensor<4x?xf16>
}

// CHECK-LABEL: func.func @largest
// CHECK: arith.constant 0 : i8
// CHECK: arith.cmpi ugt
// CHECK: arith.maxui %{{.+}} : i8
func.func @largest(%i: tensor<?xi8>) -> tensor<?xi8> {
  %j = nn.cumulate <maxui>, %i {exclusive, reverse} : tensor<?xi8>
  return %j : tensor<?xi8>
}
