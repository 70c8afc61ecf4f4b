//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_ROPE
#define INTARSIA_NN_ROPE

include "dialects/Nn/NnOp.td"

def Nn_RopeOp : Nn_TensorOp<"rope", "Rows"> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of features by `angle = positions[…] * frequencies[i]` (arXiv 2104.09864, equation 15): input
    `[…, heads, head_dim]`, positions `[…]`, frequencies `[rotary_dim / 2]`. The pair `i` is
    `(i, i + rotary_dim / 2)`, or `(2i, 2i + 1)` with `interleaved`. Features from `rotary_dim` on pass unchanged.
    Sine and cosine are multiplied by `attention_factor` (arXiv 2309.00071, section 3.4).

    ```mlir
    %r = nn.rope %q, %positions, %f {attention_factor = 1.0 : f32} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<32xf32>) -> tensor<?x?x8x64xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_IntegerTensor:$positions, Nn_FloatTensor:$frequencies,
                       UnitAttr:$interleaved, DefaultValuedAttr<F32Attr, "1.0f">:$attention_factor);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $positions `,` $frequencies attr-dict `:` functional-type(operands, results)";
}

#endif
