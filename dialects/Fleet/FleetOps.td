//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_FLEET_OPS
#define INTARSIA_FLEET_OPS

include "dialects/Fleet/FleetAttrs.td"
include "mlir/IR/SymbolInterfaces.td"

class Fleet_Op<string mnemonic, list<Trait> traits = []>
    : Op<Fleet_Dialect, mnemonic, !listconcat([Fleet_KnownAttributes], traits)>;

def Fleet_SystemOp : Fleet_Op<"system", [Symbol, SymbolTable, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "What a planner may use";
  let description = [{
    Devices, pools and links. `power_cap_kilowatts` bounds the power of all devices in use together,
    `grams_per_kilowatt_hour` is the carbon dioxide of its electricity. Rejected: a system without a pool, two links
    between the same pools.

    ```mlir
    fleet.system @edge attributes {power_cap_kilowatts = 12.0} {
      fleet.device @l4 {catalogue = "nvidia/l4"}
      fleet.pool @all of @l4 count 8 per_node 4
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<F64Attr>:$power_cap_kilowatts,
                       OptionalAttr<F64Attr>:$grams_per_kilowatt_hour);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Fleet_DeviceOp : Fleet_Op<"device", [Symbol, HasParent<"SystemOp">]> {
  let summary = "A kind of device";
  let description = [{
    `catalogue` names it in the catalogue, `file` a file of the same form, as probing a machine writes it. `set` chooses
    between the figures of a datasheet and those that a paper used.

    ```mlir
    fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
    fleet.device @here {file = "this-machine.yaml"}
    fleet.device @b200 {catalogue = "nvidia/b200", set = "paper"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$catalogue, OptionalAttr<StrAttr>:$file,
                       OptionalAttr<StrAttr>:$set);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Fleet_PoolOp : Fleet_Op<"pool", [Symbol, HasParent<"SystemOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Devices of one kind that are interchangeable";
  let description = [{
    `count` devices, `per_node` of them in a node (all in one, if it is not said). With `whole_nodes` only nodes can be
    rented, not single devices; `count` is then a multiple of `per_node`. `price` is `#fleet.rental` or `#fleet.owned`;
    without one it is what the catalogue says. `availability` is the fraction of time for which a device is there.

    ```mlir
    fleet.pool @fast of @h100 count 16 per_node 8 whole_nodes price #fleet.rental<dollars_per_hour = 2.99>
    fleet.pool @spot of @h100 count 64 per_node 8 price #fleet.rental<dollars_per_hour = 1.2> {availability = 0.95}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$device, I64Attr:$count,
                       OptionalAttr<I64Attr>:$per_node, UnitAttr:$whole_nodes, OptionalAttr<AnyAttr>:$price,
                       OptionalAttr<F64Attr>:$availability);
  let assemblyFormat = [{
    $sym_name `of` $device `count` $count (`per_node` $per_node^)? (`whole_nodes` $whole_nodes^)? (`price` $price^)?
    attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the devices of a node: all of the pool if not given.
    int64_t getDevicesPerNode() { return getPerNode().value_or(getCount()); }
  }];
}

def Fleet_NetworkOp : Fleet_Op<"network", [HasParent<"SystemOp">]> {
  let summary = "What all pools without a link of their own send each other data over";
  let description = [{
    A link between each pair of pools that no `fleet.link` connects, with the same figures. With `shared` all of them are
    one wire, together with the links of that name. Rejected: a second network.

    ```mlir
    fleet.network {gigabytes_per_second = 12.5, microseconds = 20.0}
    ```
  }];
  let arguments = (ins F64Attr:$gigabytes_per_second, F64Attr:$microseconds, OptionalAttr<StrAttr>:$shared,
                       OptionalAttr<F64Attr>:$dollars_per_gigabyte);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Fleet_LinkOp : Fleet_Op<"link", [HasParent<"SystemOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "What two pools send each other data over";
  let description = [{
    `gigabytes_per_second` (10^9 bytes) in each direction and `microseconds` of latency, between a node of the one pool
    and a node of the other; between nodes of the same pool if both names are equal. With `one_way` there is no way
    back. Links with the same `shared` are one wire: their traffic adds up. `dollars_per_gigabyte` is what a provider
    takes for traffic that leaves.

    ```mlir
    fleet.link @fast to @cheap {gigabytes_per_second = 50.0, microseconds = 10.0}
    fleet.link @fast to @fast {gigabytes_per_second = 400.0, microseconds = 5.0, shared = "spine"}
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$destination, F64Attr:$gigabytes_per_second,
                       F64Attr:$microseconds, OptionalAttr<StrAttr>:$shared, UnitAttr:$one_way,
                       OptionalAttr<F64Attr>:$dollars_per_gigabyte);
  let assemblyFormat = "$source `to` $destination attr-dict";
  let hasVerifier = 1;
}

#endif
