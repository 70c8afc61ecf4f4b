// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Passes meet what functions may look like: declarations, calls, nested modules, kernels without bodies, names left out.

// RUN: %python %S/Inputs/run_every_pass.py intarsia-opt %s | FileCheck %s
// CHECK: {{^[6-9][0-9]}} passes, 0 ended the tool

func.func private @unused(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = func.call @declared(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = nn.relu %a : tensor<2xf32>
  return %b : tensor<2xf32>
}

// -----

func.func private @twice(%x: tensor<?x8xf32> {nn.sizes = ["n", ""]}) -> (tensor<?x8xf32> {nn.sizes = ["n", ""]}) {
  %0 = arith.addf %x, %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
func.func @main(%x: tensor<?x8xf32> {nn.sizes = ["n", ""]}) -> (tensor<?x8xf32> {nn.sizes = ["n", ""]}) {
  %0 = func.call @twice(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = func.call @main(%0) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// -----

module @outer {
  module @inner {
    func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = nn.relu %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  }
  module {
  }
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}
func.func private @declared()
func.func @main(%x: memref<8xf32>, %y: memref<8xf32>) attributes {rt.results = [], rt.symbols = []} {
  return
}

// -----

rt.kernel @relu(tensor<8xf32>) -> tensor<8xf32> attributes {root = #nn.root<rows>, sizes = []}

// -----

func.func @unnamed(%s: tensor<4xf32> {nn.name = "s", nn.state}) -> (tensor<4xf32> {nn.state = 0 : i64}) {
  %0 = nn.relu %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unnamed(%s: tensor<4xf32> {nn.state}, %x: tensor<4xf32>) -> (tensor<4xf32> {nn.state = 0 : i64}, tensor<4xf32>) {
  %0 = arith.addf %s, %x : tensor<4xf32>
  return %0, %s : tensor<4xf32>, tensor<4xf32>
}
