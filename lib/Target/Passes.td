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
  let summary = "Prints kernels at a step between their ops and their code";
  let description = [{
    `intarsia-compile model.mlir --stop-after=lower | intarsia-opt --target-emit-kernels=step=shape`

    - `shape`: kernels get the attribute `rt.shapes`, which states by variant how their work is cut up: tiles,
      instructions, stages, threads, which operands are packed. On GPUs it is an array, with a shape for each kind of
      launch. The module goes on from there: code follows what the attribute states. So a figure that may be another one
      is changed by editing it; one that follows from the kernel or its processor is refused, and so is one out of range.
    - `loops`: the module becomes the functions of its kernels, as targets hand them to their code generators: loops and
      vectors of each device's best variant for the first host triple. Nothing goes on from there.
    - `llvm`: these functions in the LLVM dialect, as they are translated to LLVM IR.

    ```mlir
    rt.kernel @scores(%a: tensor<64x256xf32>, %b: tensor<256x32xf32>) -> (tensor<64x32xf32>)
        attributes {root = #nn.root<matmul>, sizes = []} {
    ```

    becomes, with `step=shape` and `cpu:x86-64-v4`:

    ```mlir
    rt.kernel @scores(%a: tensor<64x256xf32>, %b: tensor<256x32xf32>) -> (tensor<64x32xf32>)
        attributes {root = #nn.root<matmul>, rt.shapes = {"x86-64-v4" = {kernel = "matmul", lanes = 16 : i64, left = "in place",
                    right = "packed by tile", tile_rows = 8 : i64, tile_vectors = 2 : i64}}, sizes = []} {
    ```
  }];
  let options = [Option<"step", "step", "std::string", "\"loops\"", "shape, loops or llvm">];
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

def TargetExpandDivisions : Pass<"target-expand-divisions", "::mlir::ModuleOp"> {
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

def TargetGpuEmitKernels : Pass<"target-gpu-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Kernels become functions of GPU threads";
  let description = [{
    Each `rt.kernel` becomes one or several functions of a `gpu.module`, which are launched one after the other. All of
    a kernel take a pointer to each buffer, then each size, then a pointer to scratch. `itx.grid` says how many blocks a
    launch has, `itx.shared` how many bytes of shared memory, both as expressions in the kernel's sizes. Fails at ops
    that no kernel of GPUs computes.

    Example, with `architecture=sm_80`:

    ```mlir
    rt.kernel @relu(%x: tensor<?x16xf32> {nn.sizes = ["n", ""]}) -> (tensor<?x16xf32> {nn.sizes = ["n", ""]})
        attributes {root = #nn.root<rows>, sizes = ["n"]} {
      %0 = nn.relu %x : tensor<?x16xf32>
      rt.yield %0 : tensor<?x16xf32>
    }
    ```

    becomes, shortened:

    ```mlir
    gpu.func @itx_k0_0(%px: !llvm.ptr<1>, %py: !llvm.ptr<1>, %n: i64, %scratch: !llvm.ptr<1>) kernel
        attributes {itx.grid = "n ceildiv 8", itx.shared = "0", known_block_size = array<i32: 256, 1, 1>} {
      scf.if %isRow {
        scf.for %i = %lane to %c16 step %c32 : i64 {
          …
        }
      }
      gpu.return
    }
    ```
  }];
  let options = [Option<"architecture", "architecture", "std::string", "\"sm_80\"", "as after `cuda:` or `hip:` in --target">];
}

def TargetGpuMathToIntrinsics : Pass<"target-gpu-math-to-intrinsics", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Functions that GPUs have instructions for become intrinsics of LLVM";
  let description = [{
    The conversions to the vendors' dialects call functions of the vendors' libraries (libdevice, the ROCm device
    libraries) for ops of `math`, also where one instruction computes them: `math.sqrt`, `math.floor`, `math.fma` and
    their like. No such library is needed here: elementary functions are polynomials already.

    ```mlir
    %y = math.sqrt %x : f32
    // becomes
    %y = llvm.call_intrinsic "llvm.sqrt"(%x) : (f32) -> f32
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def TargetGpuFinishFunctions : Pass<"target-gpu-finish-functions", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Says on functions of GPUs what the conversions to NVVM and ROCDL leave open";
  let description = [{
    - Shared memory whose size the launch decides is external: an internal array without elements would be a variable of
      one byte in PTX. It is aligned as buffers are, or more where it asks for it, and there is one of it, `itx_shared`.
    - A block has the number of threads that kernels are compiled for (`.reqntid`, the flat work-group size). A function
      that may be launched with more gets fewer registers, and one that may be launched with fewer computes nonsense.
    - Functions have the processor and the features that they are compiled for. LLVM inlines no function into one of
      another target, or of none.
    - What NVIDIA's kernels take by value (a tensor map) is read where it is. Otherwise LLVM copies it to local memory as
      soon as its address is used.

    Example, with `architecture=sm_80`:

    ```mlir
    llvm.mlir.global internal @shared() {addr_space = 3 : i32} : !llvm.array<0 x i8>
    llvm.func @k() attributes {gpu.kernel, gpu.known_block_size = array<i32: 256, 1, 1>, nvvm.kernel, nvvm.maxntid = array<i32: 256, 1, 1>}
    ```

    becomes

    ```mlir
    llvm.mlir.global external @itx_shared() {addr_space = 3 : i32, alignment = 64 : i64} : !llvm.array<0 x i8>
    llvm.func @k() attributes {gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>, target_cpu = "sm_80", …}
    ```
  }];
  let options = [Option<"architecture", "architecture", "std::string", "\"sm_80\"", "as after `cuda:` or `hip:` in --target">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::ROCDL::ROCDLDialect"];
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
