// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @attributes
// CHECK-SAME: %{{.*}}: tensor<?x?xi64> {nn.default = 1 : i64, nn.name = "ids", nn.range = array<i64: 0, 30522>, nn.sizes = ["batch", "sequence"]}
// CHECK-SAME: -> (tensor<?x?xi64> {nn.name = "same", nn.sizes = ["batch", "sequence"]})
// CHECK-SAME: attributes {nn.metadata = {labels = ["no", "yes"]}, nn.size_limits = {sequence = 512 : i64}}
func.func @attributes(%ids: tensor<?x?xi64> {nn.name = "ids", nn.sizes = ["batch", "sequence"], nn.default = 1 : i64,
                                             nn.range = array<i64: 0, 30522>})
    -> (tensor<?x?xi64> {nn.name = "same", nn.sizes = ["batch", "sequence"]})
    attributes {nn.metadata = {labels = ["no", "yes"]}, nn.size_limits = {sequence = 512 : i64}} {
  return %ids : tensor<?x?xi64>
}

// CHECK-LABEL: func.func @unsigned
// CHECK-SAME: tensor<4xi8> {nn.unsigned}) -> (tensor<4xi8> {nn.unsigned})
func.func @unsigned(%x: tensor<4xi8> {nn.unsigned}) -> (tensor<4xi8> {nn.unsigned}) {
  return %x : tensor<4xi8>
}
