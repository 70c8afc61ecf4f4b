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
    Each kind of device that `targets` name becomes an `rt.device`, instead of those that the module has. What
    `intarsia-compile` does with `--target`.
  }];
  let options = [
    ListOption<"targets", "targets", "std::string", "As --target: cpu, cpu:x86-64-v3, …; none: cpu, this machine">
  ];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def TargetCompileKernels : Pass<"target-compile-kernels", "::mlir::ModuleOp"> {
  let summary = "Kernels become objects";
  let description = [{
    Compiles the kernels of each declared device for each of its variants, and for each host triple that the variants
    need: an `rt.object` for each. The kernels stay as declarations, which say what the host program needs to launch
    them.

    ```mlir
    rt.kernel @relu(%x: tensor<16xf32>) -> (tensor<16xf32>) attributes {root = #nn.root<rows>, sizes = []} {
      %0 = nn.relu %x : tensor<16xf32>
      rt.yield %0 : tensor<16xf32>
    }
    ```

    becomes, shortened:

    ```mlir
    rt.kernel @relu(tensor<16xf32>) -> tensor<16xf32> attributes {root = #nn.root<rows>, sizes = []}
    rt.object @"cpu.x86-64-v4" {device = @cpu, kernels = [@relu], code = [dense_resource<"relu.x86-64-v4"> : tensor<1288xi8>], …}
    ```
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def TargetVerify : Pass<"target-verify", "::mlir::ModuleOp"> {
  let summary = "Says what may leave the target phase";
  let description = [{
    Kernels are declarations. Each device has an `rt.object` for each variant and host triple, with the code of its
    kernels under the numbers that the module counts them by; the bytes are there and have their hash.
  }];
}

def TargetEmitKernels : Pass<"target-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Prints kernels as targets hand them to their code generators";
  let description = [{
    For people to read: the module becomes the functions of its kernels, as loops and vectors of each device's best
    variant for the first host triple. Nothing goes on from there.

    `intarsia-compile model.mlir --stop-after=lower | intarsia-opt --target-emit-kernels`
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def TargetCpuEmitKernels : Pass<"target-cpu-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Kernels become loops over vectors";
  let description = [{
    Each `rt.kernel` becomes two functions (include/intarsia/module_abi.h): its launch, `<name>_plan`, decides how the
    work is cut into tiles; its body, `<name>_run`, computes a range of them. Fails at ops that the CPU target cannot compile.

    Example, with `spec=x86-64-v4`:

    ```mlir
    rt.kernel @relu(%x: tensor<16xf32>) -> (tensor<16xf32>) attributes {root = #nn.root<rows>, sizes = []} {
      %0 = nn.relu %x : tensor<16xf32>
      rt.yield %0 : tensor<16xf32>
    }
    ```

    becomes, shortened:

    ```mlir
    func.func @relu_run(%arguments: !llvm.ptr, %begin: i64, %end: i64, %workspace: !llvm.ptr) {
      scf.for %tile = %begin to %end step %c1 : i64 {
        scf.for %i = %c0 to %c16 step %c16 : i64 {
          %x = llvm.load %px {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
          %y = arith.maximumf %x, %zero : vector<16xf32>
          llvm.store %y, %py {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
        }
      }
      return
    }
    func.func @relu_plan(%sizes: !llvm.ptr, %threads: i64, %launch: !llvm.ptr) {
      llvm.store %c1, %tiles : i64, !llvm.ptr
      return
    }
    ```
  }];
  let options = [
    Option<"spec", "spec", "std::string", "\"x86-64-v4\"",
           "processor and features, as after `cpu:` in --target; one, not several">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def TargetCpuExpandDivisions : Pass<"target-cpu-expand-divisions", "::mlir::ModuleOp"> {
  let summary = "Divisions that round down or up become those that LLVM has";
  let description = [{
    `arith.floordivsi`, `arith.ceildivsi` and `arith.ceildivui`, which sizes of kernels contain, have no instruction in
    LLVM.

    Example:

    ```mlir
    %tiles = arith.ceildivui %rows, %perTile : i64
    ```

    becomes

    ```mlir
    %isZero = arith.cmpi eq, %rows, %c0 : i64
    %before = arith.subi %rows, %c1 : i64
    %quotient = arith.divui %before, %perTile : i64
    %next = arith.addi %quotient, %c1 : i64
    %tiles = arith.select %isZero, %c0, %next : i64
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TargetCpuSplitFusedMultiplyAdd : Pass<"target-cpu-split-fused-multiply-add", "::mlir::ModuleOp"> {
  let summary = "Fused multiply-adds become multiplications and additions";
  let description = [{
    For processors without an instruction for it, where LLVM would call the C library. The sums of products
    (`vector.fma`) multiply and add, and so round twice. Elementary functions (`math.fma`) reduce their arguments by it
    and need it exact: they compute in f64, in which the product of two f32 is.

    Example:

    ```mlir
    %0 = vector.fma %a, %b, %sum : vector<4xf32>
    %1 = math.fma %x, %y, %z : f32
    ```

    becomes

    ```mlir
    %product = arith.mulf %a, %b : vector<4xf32>
    %0 = arith.addf %product, %sum : vector<4xf32>
    %wideX = arith.extf %x : f32 to f64
    %wideY = arith.extf %y : f32 to f64
    %wideZ = arith.extf %z : f32 to f64
    %wideProduct = arith.mulf %wideX, %wideY : f64
    %wideSum = arith.addf %wideProduct, %wideZ : f64
    %1 = arith.truncf %wideSum : f64 to f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif
