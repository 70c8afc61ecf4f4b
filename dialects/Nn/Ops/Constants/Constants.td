//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_CONSTANTS
#define INTARSIA_NN_CONSTANTS

include "dialects/Nn/NnOp.td"
include "mlir/IR/SymbolInterfaces.td"

def Nn_ConstantsOp : Nn_Op<"constants", [Symbol]> {
  let summary = "Weights that the module itself holds";
  let description = [{
    An archive whose tensors are resources of the module, by their keys: `nn.weight` reads them as it reads those of a
    file. Constants of MLIR files become such. The bytes stay where they are: in the mapped file if that is bytecode.

    ```mlir
    nn.constants @constants {tensors = {w = dense_resource<w> : tensor<64x32xf32>}}
    …
    %w = nn.weight @constants["w"] : tensor<64x32xf32>
    ```

    Elements are row-major as in archives: those of i1 have a byte each, 0 or 1. Rejected are tensors whose resource is
    not in the file or has another number of bytes than the type, and elements that archives do not hold.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$tensors);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

#endif
