//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_KERNEL_ROOT
#define INTARSIA_KERNEL_ROOT

include "mlir/IR/EnumAttr.td"

/// Kinds of kernels. A kernel of the kinds above `rows` is built around exactly one op that has that root; kernels of
/// rows and generic ones hold ops that any element or row of a tensor can be computed by.
def KernelRootEnum : I32EnumAttr<"KernelRoot", "what a kernel is built around", [
    I32EnumAttrCase<"Linear", 0, "linear">, I32EnumAttrCase<"Matmul", 1, "matmul">,
    I32EnumAttrCase<"Attention", 2, "attention">, I32EnumAttrCase<"CachedAttention", 3, "cached_attention">,
    I32EnumAttrCase<"CacheAppend", 4, "cache_append">, I32EnumAttrCase<"Route", 5, "route">,
    I32EnumAttrCase<"Experts", 6, "experts">, I32EnumAttrCase<"Candidates", 7, "candidates">,
    I32EnumAttrCase<"Rows", 8, "rows">, I32EnumAttrCase<"Generic", 9, "generic">,
    I32EnumAttrCase<"Conv", 10, "conv">, I32EnumAttrCase<"Recurrent", 11, "recurrent">]> {
  let cppNamespace = "::intarsia";
}

#endif
