//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_EMBEDDING
#define INTARSIA_NN_EMBEDDING

include "dialects/Nn/NnOp.td"

def Nn_EmbeddingOp : Nn_TensorOp<"embedding", "Rows", [
    DeclareOpInterfaceMethods<StoredOperandOpInterface>, DeclareOpInterfaceMethods<IndexOperandOpInterface>]> {
  let summary = "Rows of a table";
  let description = [{
    `result[…, :] = table[indices[…], :]`: table `[rows, features]`, indices of any rank. An input whose
    elements are all indices, as they are or through reshapes, concatenations and casts between integers, has the
    table's rows as its range: a call with others is refused. Indices that a kernel computes are checked during the call
    in models that come from MLIR files (`legalize-checks`): the call fails if one is outside the table. Kernels give a
    row of NaN for such an index. Rejected: a table without rows, constant indices
    outside it, an input whose `nn.range` or `nn.default` is not inside it.

    ```mlir
    %e = nn.embedding %table, %ids : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
    ```
  }];
  let arguments = (ins Nn_FloatTensor:$table, Nn_IntegerTensor:$indices);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$table `,` $indices attr-dict `:` functional-type(operands, results)";
}

#endif
