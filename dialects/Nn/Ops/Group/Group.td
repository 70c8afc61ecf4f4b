//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_NN_GROUP
#define INTARSIA_NN_GROUP

include "dialects/Nn/NnOp.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Nn_GroupOp : Nn_Op<"group", [IsolatedFromAbove, Pure, SingleBlock]> {
  let summary = "What becomes one kernel";
  let description = [{
    A region for each kernel-to-be: block arguments are the operands, `nn.yield` gives the results. `root` is the kind of
    kernel (`KernelRoot` in dialects/Interfaces), `why` the reason for the choice.

    ```mlir
    %r = nn.group linear(%a = %x, %b = %w) {why = "gelu: 6.2 us inside, 9.8 apart"}
        : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
      %h = nn.linear %a, %b : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32>
      %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
      nn.yield %g : tensor<?x1536xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nn_AnyTensor>:$inputs, Nn_RootAttr:$root, OptionalAttr<StrAttr>:$why);
  let results = (outs Variadic<Nn_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    /// Makes the group with an empty body block that has an argument for each input; the caller fills it.
    OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::ValueRange":$inputs, "::intarsia::KernelRoot":$root,
                   "::llvm::StringRef":$why)>
  ];
  let extraClassDeclaration = [{
    ::mlir::Block &getBodyBlock() { return getBody().front(); }
  }];
}

def Nn_YieldOp : Nn_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"GroupOp">]> {
  let summary = "The results of a group";
  let arguments = (ins Variadic<Nn_AnyTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

#endif
