// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-indices | FileCheck %s

// CHECK-LABEL: @elements
// CHECK-SAME: (%{{.+}}: tensor<4xf32>, %{{.+}}: tensor<3xi64>) -> tensor<3xf32>
// CHECK: ^bb0(%[[ELEMENT:.+]]: i64, %{{.+}}: f32):
// CHECK: %[[INDEX:.+]] = arith.index_cast %[[ELEMENT]] : i64 to index
// CHECK: tensor.extract %{{.+}}[%[[INDEX]]]
func.func @elements(%x: tensor<4xf32>, %i: tensor<3xindex>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<3xindex>) outs(%e : tensor<3xf32>) {
  ^bb0(%v: index, %o: f32):
    %r = tensor.extract %x[%v] : tensor<4xf32>
    linalg.yield %r : f32 } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// CHECK-LABEL: @scalars
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>, %[[I:.+]]: i64) -> (tensor<1xf32>, i64)
// CHECK: %[[AT:.+]] = arith.index_cast %[[I]] : i64 to index
// CHECK: tensor.extract_slice %[[X]][%[[AT]]]
// CHECK: %[[BACK:.+]] = arith.index_cast %[[AT]] : index to i64
// CHECK: return %{{.+}}, %[[BACK]]
func.func @scalars(%x: tensor<4xf32>, %i: index) -> (tensor<1xf32>, index) {
  %y = tensor.extract_slice %x[%i] [1] [1] : tensor<4xf32> to tensor<1xf32>
  return %y, %i : tensor<1xf32>, index
}

// CHECK-LABEL: @computed
// CHECK: %[[WIDE:.+]] = arith.extsi %{{.+}} : tensor<5xi32> to tensor<5xi64>
// CHECK: %[[TABLE:.+]] = arith.constant dense<[0, 1, 2, 3, -1]> : tensor<5xi64>
// CHECK: %[[SUM:.+]] = arith.addi %[[WIDE]], %[[TABLE]] : tensor<5xi64>
// CHECK: linalg.generic {{.+}} outs(%[[SUM]] : tensor<5xi64>)
// CHECK: %[[YIELDED:.+]] = arith.index_cast %{{.+}} : index to i64
// CHECK: linalg.yield %[[YIELDED]] : i64
// CHECK: return %{{.+}} : tensor<5xi64>
func.func @computed(%x: tensor<5xi32>, %start: index) -> tensor<5xi64> {
  %w = arith.index_cast %x : tensor<5xi32> to tensor<5xindex>
  %t = arith.constant dense<[0, 1, 2, 3, -1]> : tensor<5xindex>
  %s = arith.addi %w, %t : tensor<5xindex>
  %f = linalg.fill ins(%start : index) outs(%s : tensor<5xindex>) -> tensor<5xindex>
  %r = arith.index_cast %f : tensor<5xindex> to tensor<5xi64>
  return %r : tensor<5xi64>
}
