//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RT_INTERFACES
#define INTARSIA_RT_INTERFACES

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Rt_Lifetime : I32EnumAttr<"Lifetime", "how long the contents of a buffer last", [
    I32EnumAttrCase<"Workspace", 0, "workspace">, I32EnumAttrCase<"State", 1, "state">,
    I32EnumAttrCase<"Constant", 2, "constant">, I32EnumAttrCase<"External", 3, "external">]> {
  let cppNamespace = "::intarsia::rt";
}

def Rt_BufferOpInterface : OpInterface<"BufferOpInterface"> {
  let cppNamespace = "::intarsia::rt";
  let description = [{
    An op of the host program whose one result is a buffer. Its lifetime is one of

    - `workspace`: it belongs to the call, and may share memory with other buffers;
    - `state`: it belongs to the caller, and kernels update it in place;
    - `constant`: it lasts as long as the module is loaded, and nothing writes it;
    - `external`: it belongs to the caller: inputs, which nothing writes, and results.
  }];
  let methods = [
    InterfaceMethod<"Returns how long the contents last.", "::intarsia::rt::Lifetime", "getLifetime">
  ];
}

#endif
