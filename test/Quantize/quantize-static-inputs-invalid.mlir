// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-static-inputs{inputs=3F800000-40000000/q}))" 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-round-to-nearest{format=int8-g64 parts=linears},quantize-static-inputs{inputs=3F800000-40000000/q}))" 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-round-to-nearest{format=int8-channel activations=8-wide parts=linears},quantize-static-inputs{inputs=3F800000/q}))" 2>&1 | FileCheck %s --check-prefix=LENGTH
// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-static-inputs{inputs=00000000-3F800000/q}))" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-static-inputs{inputs=3F800000/q,3F800000/q}))" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not intarsia-opt %s --pass-pipeline="builtin.module(func.func(quantize-static-inputs{inputs=xyz/q}))" 2>&1 | FileCheck %s --check-prefix=TEXT

nn.archive @weights {file = "w.safetensors"}

// PLAIN: weight 'q' is not quantized, so that an input in 8 bits would gain nothing: give it the format int8-channel
// GROUPS: weight 'q' has the format i8-f16-64, inputs with scales that a text has shown are multiplied by int8-channel
// LENGTH: weight 'q' has 2 input features, and there are factors of 1: are they for another model?
// ZERO: the input of 'q' has the factor 0.000000 for feature 0, it must be above zero and finite
// TWICE: the weight 'q' has two inputs with scales of a text
// TEXT: 'xyz/q' is no input with scales of a text: BITS-BITS-…/KEY+KEY is one
func.func @main(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  %q = nn.weight @weights["q"] : tensor<1x2xf32>
  %h = nn.linear %x, %q : (tensor<?x2xf32>, tensor<1x2xf32>) -> tensor<?x1xf32>
  return %h : tensor<?x1xf32>
}
