//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_WAFER_PASSES
#define INTARSIA_WAFER_PASSES

include "mlir/Pass/PassBase.td"

def WaferLowerFunctions : Pass<"wafer-lower-functions", "::mlir::ModuleOp"> {
  let summary = "Turn functions of distributed products into programs of cores";
  let description = [{
    Each function becomes a `wafer.program` of its name on the target and one square grid, that of its ops. Arguments are
    loaded where their first use wants them, results are stored. A vector that an op gives is used where it lies; a
    matrix that `wafer.dist_gemm` multiplies must be an argument.

    ```mlir
    func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) -> tensor<8x8xf32> {
      %c = wafer.dist_gemm mesh %a, %b on 4 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xf32>
      return %c : tensor<8x8xf32>
    }
    ```
  }];
  let options = [Option<"target", "target", "std::string", "\"wse-2\"",
                        "A wafer of the catalogue, or a YAML file of the same form">];
  let dependentDialects = ["::intarsia::wafer::WaferDialect"];
}

def WaferVerifyPrograms : Pass<"wafer-verify-programs", "::mlir::ModuleOp"> {
  let summary = "Refuse programs that could deadlock, race, read unset memory or mix messages of one color";
  let description = [{
    Walks through each program once, without values, in the order of its ops: each receive must have an earlier send and
    each awaited send an earlier receive; no buffer is used while it is transferred; no router has two inputs of one
    color. A program that passes ends whatever the timing is (lib/Runtime/Wafer/Functional.h says why).
  }];
}

#endif
