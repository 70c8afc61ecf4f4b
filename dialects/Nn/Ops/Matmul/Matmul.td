//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_MATMUL
#define INTARSIA_NN_MATMUL

include "dialects/Nn/NnOp.td"

def Nn_MatmulOp : Nn_TensorOp<"matmul", "Matmul", [DeclareOpInterfaceMethods<ContractionOpInterface>]> {
  let summary = "Batched matrix multiplication of two computed tensors";
  let description = [{
    `result[b…, m, n] = sum_k lhs[b…, m, k] * rhs[b…, k, n]`; with `transpose_lhs` the lhs is `[b…, k, m]`, with
    `transpose_rhs` the rhs is `[b…, n, k]`. Batch dimensions agree one by one (static ones exactly). With a `precision`
    a device may round lhs and rhs to that type before it multiplies them, as for nn.linear.

    ```mlir
    %c = nn.matmul %a, %b {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                   OptionalAttr<TypeAttr>:$precision);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

#endif
