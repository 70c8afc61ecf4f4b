//===- Passes.td - Passes of the targets --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TARGET_PASSES
#define INTARSIA_TARGET_PASSES

include "mlir/Pass/PassBase.td"

def TargetDeclareDevices : Pass<"target-declare-devices", "::mlir::ModuleOp"> {
  let summary = "Says what a module is compiled for";
  let description = [{
    Each kind of device that `targets` name becomes an `rt.device`, in place of those that the module has. What
    `intarsia-compile` does with `--target`.
  }];
  let options = [
    ListOption<"targets", "targets", "std::string", "As --target: cpu, cpu:x86-64-v3, …; none: cpu, this machine">
  ];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def TargetCpuEmitKernels : Pass<"target-cpu-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Kernels become loops over vectors";
  let description = [{
    Each `rt.kernel` becomes two functions (include/intarsia/module_abi.h): `<name>_plan` decides how a launch is cut
    into tiles, `<name>_run` computes a range of them. This is what the CPU target hands to LLVM.
  }];
  let options = [
    Option<"spec", "spec", "std::string", "\"x86-64-v4\"",
           "processor and features, as after `cpu:` in --target; one, not several">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

#endif
