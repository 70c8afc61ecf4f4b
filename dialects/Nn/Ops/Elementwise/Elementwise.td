//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_ELEMENTWISE
#define INTARSIA_NN_ELEMENTWISE

include "dialects/Nn/NnOp.td"

/// A function of each element.
class Nn_UnaryOp<string mnemonic, string formula> : Nn_SameTypeOp<mnemonic, [Elementwise]> {
  let summary = "Elementwise " # mnemonic;
  let description = "`" # formula # "`, for tensors of any shape. Computed in f32 at least.";
  let arguments = (ins Nn_FloatTensor:$input);
  let results = (outs Nn_FloatTensor:$result);
  let hasVerifier = 0;
  let hasFolder = 1;
}

def Nn_GeluOp : Nn_UnaryOp<"gelu", "x * P(X <= x)"> {
  let description = [{
    With form `erf`: `x / 2 * (1 + erf(x / sqrt(2)))`; with form `tanh`:
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))` (arXiv 1606.08415, section 2). Computed in f32 at
    least.

    ```mlir
    %g = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_GeluFormAttr:$form);
}

def Nn_SiluOp : Nn_UnaryOp<"silu", "x / (1 + exp(-x))">;
def Nn_ReluOp : Nn_UnaryOp<"relu", "max(x, 0), NaN where x is NaN">;
def Nn_TanhOp : Nn_UnaryOp<"tanh", "tanh(x)">;
def Nn_SigmoidOp : Nn_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;

#endif
