//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_LINEAR
#define INTARSIA_NN_LINEAR

include "dialects/Nn/NnOp.td"

def Nn_LinearOp : Nn_TensorOp<"linear", "Linear", [
    DeclareOpInterfaceMethods<ContractionOpInterface>, DeclareOpInterfaceMethods<StoredOperandOpInterface>,
    DeclareOpInterfaceMethods<RowInputOpInterface>]> {
  let summary = "Fully connected layer";
  let description = [{
    `result[…, n] = sum_k input[…, k] * weight[n, k] (+ bias[n])`: input `[…, in]`, weight `[out, in]`,
    bias `[out]`, result `[…, out]` of the input's element type. Accumulates in f32 at least. Weight and bias have the
    input's element type or a narrower one, as they are stored.

    With a `precision` a device may round input and weight to that type before it multiplies them: `f16`, `bf16` or
    `tf32`. It is for devices with matrix instructions; others multiply operands as they are.

    ```mlir
    %h = nn.linear %x, %w, %b : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$bias,
                   OptionalAttr<TypeAttr>:$precision);
  let hasCanonicalizer = 1;
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

#endif
