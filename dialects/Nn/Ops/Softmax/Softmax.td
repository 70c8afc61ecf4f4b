//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_SOFTMAX
#define INTARSIA_NN_SOFTMAX

include "dialects/Nn/NnOp.td"

def Nn_SoftmaxOp : Nn_SameTypeOp<"softmax", [RowwiseOpInterface]> {
  let summary = "Softmax over the last dimension";
  let description = [{
    `result = exp(input - max) / sum(exp(input - max))` over the last dimension. A row of -inf gives zeros.

    ```mlir
    %p = nn.softmax %s : tensor<?x12x?x?xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$input);
  let results = (outs Nn_FloatTensor:$result);
}

#endif
