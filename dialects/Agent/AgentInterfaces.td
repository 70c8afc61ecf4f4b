//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_AGENT_INTERFACES
#define INTARSIA_AGENT_INTERFACES

include "mlir/IR/OpBase.td"

def Agent_TaskOpInterface : OpInterface<"TaskOpInterface"> {
  let cppNamespace = "::intarsia::agent";
  let description = [{
    Something that takes time or money and is put somewhere. `label` is the user's name for it; `place` is where it was
    put, or must be; tasks with the same `together` share a pool, tasks with the same `apart` share none.
  }];
  let methods = [
    InterfaceMethod<"The user's name", "std::optional<::llvm::StringRef>", "getLabel">,
    InterfaceMethod<"Where it was put", "::intarsia::fleet::PlacementAttr", "getPlaceAttr">,
    InterfaceMethod<"Puts it somewhere", "void", "setPlaceAttr", (ins "::intarsia::fleet::PlacementAttr":$place)>,
    InterfaceMethod<"Tasks of this name share a pool", "std::optional<::llvm::StringRef>", "getTogether">,
    InterfaceMethod<"Tasks of this name share no pool", "std::optional<::llvm::StringRef>", "getApart">,
    InterfaceMethod<"How often it runs", "::intarsia::agent::WorkAttr", "getWorkAttr">,
    InterfaceMethod<"Says how often it runs", "void", "setWorkAttr", (ins "::intarsia::agent::WorkAttr":$work)>,
  ];
  let verify = "return ::intarsia::agent::verifyTask($_op);";
}

#endif
