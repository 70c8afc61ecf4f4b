//===- Passes.h - Passes of the lower phase -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_PASSES_H
#define INTARSIA_LIB_LOWER_PASSES_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace intarsia::lower {

#define GEN_PASS_DECL
#include "lib/Lower/Passes.h.inc"

} // namespace intarsia::lower

#endif
