//===- Passes.td - Passes of the reference ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_REFERENCE_PASSES
#define INTARSIA_REFERENCE_PASSES

include "mlir/Pass/PassBase.td"

def LowerNnToReference : Pass<"lower-nn-to-reference"> {
  let summary = "Every nn op becomes plain loops: slow, exact, the oracle of tests";
  let description = [{
    Tensor ops of `nn` become `linalg.generic` over `arith` and `math` by the formula that the op's description gives
    (`ReferenceOpInterface`), computed in f64. Each result is rounded once, to its element type. In f32 is only what is
    defined by its roundings: angles of `nn.rope`, scales and quantized values of `nn.quantize` and of caches, and
    dequantized values. Quantization rounds to nearest, ties to even, in every block format. What was never written to a
    cache does not influence results. Nothing is tiled, fused or reordered. `nn.group` is inlined, `nn.weight` and
    `nn.archive` stay. An op of `nn` without a reference is an error.

    ```mlir
    intarsia-opt model.mlir --lower-nn-to-reference
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def ReferenceKernelsToFunctions : Pass<"reference-kernels-to-functions", "::mlir::ModuleOp"> {
  let summary = "Kernels become functions over the buffers of a launch";
  let description = [{
    The `rt.kernel` of index i becomes `itx_reference_kernel_<i>(buffers, sizes)`, whose body is that of the kernel on
    tensors. `buffers` points to the addresses of inputs, then outputs, `sizes` to the values of the kernel's sizes.
    Weights are decoded from the layout in which they lie in memory, of whatever target. What `tensor.extract` reads
    outside of a tensor is NaN, or the least integer. Results are written when all of them are known, because an output
    may be the memory of an input.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::bufferization::BufferizationDialect",
                           "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def ReferenceBufferize : Pass<"reference-bufferize"> {
  let summary = "Tensors of references become memory";
  let description = [{
    One-shot bufferization with copies as loops. What a function allocates is freed at its end. A view with several sizes
    of a call in the place of one is written with its strides.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::bufferization::BufferizationDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ReferenceSumsToLoops : Pass<"reference-sums-to-loops", "::mlir::func::FuncOp"> {
  let summary = "Sums become loops that compute several results at once";
  let description = [{
    A reduction over memory whose dimensions are those of the result, then those that it reduces, becomes loops, of which
    the last one over the result is unrolled and jammed by 8, 4 or 2, whichever divides its size. Each result is computed
    by the same operations in the same order. Other ops are left to `convert-linalg-to-loops`.

    ```mlir
    linalg.generic {iterator_types = ["parallel", "parallel", "reduction"], …} // [?, 64, ?]: 8 columns at once
    ```
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def ReferenceWidenMath : Pass<"reference-widen-math", "::mlir::ModuleOp"> {
  let summary = "Elementary functions are computed in f64";
  let description = [{
    `math` ops on narrower floats are computed in f64 and rounded once, but for those that are exact anyhow: functions
    of the C library on f32 may be off by one unit in the last place. `math.log1p` and `math.expm1` become calls of it,
    as LLVM would make `log(1 + x)` and `exp(x) - 1` of them.

    ```mlir
    %y = math.exp %x : f32
    // becomes
    %0 = arith.extf %x : f32 to f64
    %1 = math.exp %0 : f64
    %y = arith.truncf %1 : f64 to f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

def ReferenceExpandFloats : Pass<"reference-expand-floats"> {
  let summary = "Small floats become integers";
  let description = [{
    Processors without extensions would call functions of the compiler's library for `arith.extf` and `arith.truncf` of
    f16, bf16 and 8-bit floats, and of the C library for `math.roundeven`. They become integer arithmetic, which rounds
    once, to nearest, ties to even. Values, memory and constants of small floats get the integer type of their bits, as
    code generators may convert a small float even to move it. Other arithmetic on small floats is an error; widen it
    first (`arith-emulate-unsupported-floats`).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif
