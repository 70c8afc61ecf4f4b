# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a chain of layers as the fuse phase leaves it: widen, narrow, add and normalise."""

import sys

X, H = "tensor<?x?x64xf32>", "tensor<?x?x256xf32>"
print('nn.archive @w {file = "model.safetensors"}')
print(f'func.func @main(%x: {X} {{nn.sizes = ["batch", "sequence", ""]}}) -> {X} {{')
previous = "%x"
for i in range(int(sys.argv[1])):
    print(f"""
  %up{i} = nn.weight @w["layer.{i}.up"] : tensor<256x64xf32>
  %down{i} = nn.weight @w["layer.{i}.down"] : tensor<64x256xf32>
  %norm{i} = nn.weight @w["layer.{i}.norm"] : tensor<64xf32>
  %h{i} = nn.group linear(%x0 = {previous}, %w0 = %up{i}) : ({X}, tensor<256x64xf32>) -> {H} {{
    %0 = nn.linear %x0, %w0 : ({X}, tensor<256x64xf32>) -> {H} loc("layer.{i}.up")
    %1 = nn.gelu %0 {{form = #nn.gelu_form<erf>}} : {H}
    nn.yield %1 : {H}
  }}
  %d{i} = nn.group linear(%x0 = %h{i}, %w0 = %down{i}) : ({H}, tensor<64x256xf32>) -> {X} {{
    %0 = nn.linear %x0, %w0 : ({H}, tensor<64x256xf32>) -> {X} loc("layer.{i}.down")
    nn.yield %0 : {X}
  }}
  %y{i} = nn.group rows(%x0 = %d{i}, %r0 = {previous}, %g = %norm{i}) : ({X}, {X}, tensor<64xf32>) -> {X} {{
    %0 = arith.addf %x0, %r0 : {X}
    %1 = nn.rms_norm %0, %g {{epsilon = 1.0e-6 : f32}} : ({X}, tensor<64xf32>) -> {X} loc("layer.{i}.norm")
    nn.yield %1 : {X}
  }}""")
    previous = f"%y{i}"
print(f"  return {previous} : {X}\n}}")
