//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PARTITION_PASSES
#define INTARSIA_PARTITION_PASSES

include "mlir/Pass/PassBase.td"

def PartitionPlace : Pass<"partition-place", "::mlir::ModuleOp"> {
  let summary = "Puts ops on devices, by their names in the user's model";
  let description = [{
    Each place is `GLOB=@device`: ops whose location has a name that the glob matches get `rt.device = @device`. Of
    several places that match an op the last one holds. Other ops keep the device that they have, by default the module's
    first one. Weights and views are wherever they are read.

    ```mlir
    intarsia-opt model.mlir --partition-place='places=encoder.layer.[0-2]*=@reference'
    ```
    A place that matches no op is an error, which shows the nearest names.
  }];
  let options = [ListOption<"places", "places", "std::string", "Which ops run where: GLOB=@device">];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

def PartitionAlternatives : Pass<"partition-alternatives", "::mlir::ModuleOp"> {
  let summary = "Each device that nothing is placed on gets the functions too";
  let description = [{
    A module that is compiled for several devices runs on whichever of them a machine has. For every device after the
    first on which no op is placed, each function is copied with all its ops on that device; `rt.alternative` names the
    function that the copy stands for. Of a function and its alternatives the runtime takes the first whose devices are
    there.

    ```mlir
    func.func @main(…) { %y = nn.relu %x : … }
    func.func @main.reference(…) attributes {rt.alternative = "main"} { %y = nn.relu %x {rt.device = @reference} : … }
    ```
  }];
  let dependentDialects = ["::intarsia::rt::RtDialect"];
}

#endif
