// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-indices --verify-diagnostics

ml_program.global private mutable @h(dense<0> : tensor<4xindex>) : tensor<4xindex>
func.func @main() -> tensor<4xi64> {
  // expected-error@+1 {{'ml_program.global_load' of elements of 'index' is not compiled: use i64}}
  %h = ml_program.global_load @h : tensor<4xindex>
  %r = arith.index_cast %h : tensor<4xindex> to tensor<4xi64>
  return %r : tensor<4xi64>
}
