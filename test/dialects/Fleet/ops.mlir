// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: fleet.system @dc attributes {grams_per_kilowatt_hour = 3.500000e+02 : f64, power_cap_kilowatts = 4.500000e+01 : f64} {
fleet.system @dc attributes {power_cap_kilowatts = 45.0, grams_per_kilowatt_hour = 350.0} {
  // CHECK: fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // CHECK: fleet.device @gaudi3 {catalogue = "intel/gaudi3", set = "paper"}
  fleet.device @gaudi3 {catalogue = "intel/gaudi3", set = "paper"}
  // CHECK: fleet.device @here {file = "this-machine.yaml"}
  fleet.device @here {file = "this-machine.yaml"}
  // CHECK: fleet.pool @fast of @h100 count 16 per_node 8 whole_nodes price #fleet.rental<dollars_per_hour = 2.99>
  fleet.pool @fast of @h100 count 16 per_node 8 whole_nodes price #fleet.rental<dollars_per_hour = 2.99>
  // CHECK: fleet.pool @cheap of @gaudi3 count 32 price #fleet.owned<dollars = 12500, years = 4, interest = 0.08, dollars_per_kilowatt_hour = 0.4> {availability = 0.94999999999999996 : f64}
  fleet.pool @cheap of @gaudi3 count 32 price #fleet.owned<dollars = 12500, years = 4, interest = 0.08, dollars_per_kilowatt_hour = 0.4> {availability = 0.95}
  // CHECK: fleet.pool @cpu of @here count 1{{$}}
  fleet.pool @cpu of @here count 1
  // CHECK: fleet.link @fast to @cheap {dollars_per_gigabyte = 2.000000e-02 : f64, gigabytes_per_second = 5.000000e+01 : f64, microseconds = 1.000000e+01 : f64, shared = "spine"}
  fleet.link @fast to @cheap {gigabytes_per_second = 50.0, microseconds = 10.0, shared = "spine", dollars_per_gigabyte = 0.02}
  // CHECK: fleet.link @fast to @fast
  fleet.link @fast to @fast {gigabytes_per_second = 400.0, microseconds = 5.0, shared = "spine"}
  // CHECK: fleet.link @cpu to @fast {{.*}}one_way
  fleet.link @cpu to @fast {gigabytes_per_second = 1.0, microseconds = 80.0, one_way}
  // CHECK: fleet.link @fast to @cpu
  fleet.link @fast to @cpu {gigabytes_per_second = 2.0, microseconds = 80.0, one_way}
}

// What is 1 or is not said is not printed.
// CHECK: placements = [#fleet.placement<@dc::@fast>,
// CHECK-SAME: #fleet.placement<@dc::@fast, tensor = 2, pipeline = 4, expert = 8, data = 4, replicas = 3, batch = 8, precision = "fp8">,
// CHECK-SAME: #fleet.placement<@dc::@fast, parts = 4, replicas = 3>,
// CHECK-SAME: #fleet.placement<@dc::@cheap, replicas = 2>]
module attributes {test.placements = [#fleet.placement<@dc::@fast>,
    #fleet.placement<@dc::@fast, tensor = 2, pipeline = 4, expert = 8, data = 4, replicas = 3, batch = 8, precision = "fp8">,
    #fleet.placement<@dc::@fast, parts = 4, replicas = 3>,
    #fleet.placement<@dc::@cheap, tensor = 1, parts = 1, replicas = 2>]} {}
