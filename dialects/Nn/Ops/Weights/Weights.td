//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_WEIGHTS
#define INTARSIA_NN_WEIGHTS

include "dialects/Nn/NnOp.td"
include "mlir/IR/SymbolInterfaces.td"

def Nn_ArchiveOp : Nn_Op<"archive", [Symbol]> {
  let summary = "A file of weights";
  let description = [{
    Names a weights file; `file` is relative to the model's directory (`--archives`) and stays below it: `..` and
    absolute paths are rejected, so that IR from elsewhere cannot read the user's files. The file is mapped when
    weights are packed, never read into IR.

    ```mlir
    nn.archive @weights {file = "model.safetensors"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$file);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Nn_WeightOp : Nn_Op<"weight", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor of an archive";
  let description = [{
    The tensor that `archive` holds under `key`, of static shape and of the stored type.

    ```mlir
    %w = nn.weight @weights["encoder.layer.0.output.dense.weight"] : tensor<384x1536xf32>
    ```

    A tensor of values of 4 bits is stored two a byte, the lower four bits first: `tensor<…x64xi4>` are bytes whose
    dimensions agree with it up to the last ones, such as `U8 […, 2, 16]`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$archive, StrAttr:$key);
  let results = (outs Nn_AnyTensor:$result);
  let assemblyFormat = "$archive `[` $key `]` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
