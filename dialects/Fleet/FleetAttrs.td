//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_FLEET_ATTRS
#define INTARSIA_FLEET_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"

def Fleet_Dialect : Dialect {
  let name = "fleet";
  let cppNamespace = "::intarsia::fleet";
  let summary = "The hardware one may use, and where things were put";
  let description = [{
    A system is what a planner may rent or owns: pools of equal devices, links between them, and what they cost. The
    figures of a device (peaks, memory, power, list price) stand in the catalogue; a file says only which device, how
    many, and what is particular to this fleet.

    ```mlir
    fleet.system @dc {
      fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
      fleet.device @gaudi3 {catalogue = "intel/gaudi3"}
      fleet.pool @fast of @h100 count 16 per_node 8 whole_nodes price #fleet.rental<dollars_per_hour = 2.99>
      fleet.pool @cheap of @gaudi3 count 32 per_node 8
      fleet.link @fast to @cheap {gigabytes_per_second = 50.0, microseconds = 10.0}
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
}

/// Trait of the ops of this dialect and of `agent`: an attribute without a dialect's prefix must be one of the op's
/// own.
def Fleet_KnownAttributes : NativeOpTrait<"KnownAttributes"> {
  let cppNamespace = "::intarsia::fleet";
}

def Fleet_RentalAttr : AttrDef<Fleet_Dialect, "Rental"> {
  let mnemonic = "rental";
  let summary = "The price of a device that is rented";
  let description = "`#fleet.rental<dollars_per_hour = 2.99>`: of one device; power is included.";
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$dollarsPerHour);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fleet_OwnedAttr : AttrDef<Fleet_Dialect, "Owned"> {
  let mnemonic = "owned";
  let summary = "The price of a device that is owned";
  let description = [{
    `#fleet.owned<dollars = 30000, years = 4, interest = 0.08, dollars_per_kilowatt_hour = 0.12>`: the capital of one
    device with its share of the node, the years over which it is written off, the interest of a year as a fraction, and
    the price of electricity. Its power stands in the catalogue.
  }];
  let parameters = (ins OptionalParameter<"::mlir::FloatAttr">:$dollars, OptionalParameter<"::mlir::FloatAttr">:$years,
                        OptionalParameter<"::mlir::FloatAttr">:$interest,
                        OptionalParameter<"::mlir::FloatAttr">:$dollarsPerKilowattHour);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fleet_PlacementAttr : AttrDef<Fleet_Dialect, "Placement"> {
  let mnemonic = "placement";
  let summary = "Where a piece was put, and how it is split there";
  let description = [{
    `#fleet.placement<@dc::@fast, tensor = 2, replicas = 3, batch = 8, precision = "fp8">`: the pool, the degrees of
    tensor, pipeline, expert and data parallelism within a replica, in how many equal parts the device is of which a
    replica takes one, how many replicas there are, how many requests a replica serves at once, the element type of
    weights, and whether prefill and decode are in the same replicas (`aggregated`). What is 1, or is not said, is left
    out, but for `replicas`: written by hand, `#fleet.placement<@dc::@fast>` pins a task to a pool and leaves the rest to
    the planner, `#fleet.placement<@dc::@fast, replicas = 1>` to one replica of one device that serves one request at a
    time. Degrees without `replicas` leave their number to the planner.

    A replica takes `tensor * pipeline * data` devices; experts are spread over the tensor and data ranks of a pipeline
    stage, so that `expert` divides `tensor * data`. `parts` is 2, 4 or 8, and then a replica is on one device.
  }];
  let parameters = (ins "::mlir::SymbolRefAttr":$pool, DefaultValuedParameter<"int64_t", "1">:$tensor,
                        DefaultValuedParameter<"int64_t", "1">:$pipeline,
                        DefaultValuedParameter<"int64_t", "1">:$expert, DefaultValuedParameter<"int64_t", "1">:$data,
                        DefaultValuedParameter<"int64_t", "1">:$parts,
                        OptionalParameter<"::std::optional<int64_t>">:$replicas,
                        DefaultValuedParameter<"int64_t", "1">:$batch, OptionalParameter<"::mlir::StringAttr">:$precision,
                        DefaultValuedParameter<"bool", "false">:$aggregated);
  let assemblyFormat = [{
    `<` $pool (`,` struct($tensor, $pipeline, $expert, $data, $parts, $replicas, $batch, $precision, $aggregated)^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the devices of one replica; one if it takes a part of it.
    int64_t getDevicesPerReplica() const { return getTensor() * getPipeline() * getData(); }
    /// Returns true if all but the pool is left to the planner.
    bool isPoolOnly() const {
      return getDevicesPerReplica() == 1 && getExpert() == 1 && getParts() == 1 && !getReplicas() && getBatch() == 1 &&
             !getPrecision() && !getAggregated();
    }
  }];
}

#endif
