// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'fleet.system' op @dc has no pool: nothing can be placed on it; add a fleet.pool of one of its devices}}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
}

// -----

// expected-error@+1 {{'fleet.system' op power_cap_kilowatts is -3, must not be negative}}
fleet.system @dc attributes {power_cap_kilowatts = -3.0} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
}

// -----

// expected-error@+1 {{'fleet.system' op power_cap_kilowatts is 2000000, plausible is 0.005 to 1000000; is it in kilowatts, not watts?}}
fleet.system @dc attributes {power_cap_kilowatts = 2000000.0} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
}

// -----

// expected-error@+1 {{'fleet.system' op grams_per_kilowatt_hour is NaN, must be a number}}
fleet.system @dc attributes {grams_per_kilowatt_hour = 0x7FF8000000000000 : f64} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
}

// -----

fleet.system @dc {
  // expected-error@+1 {{'fleet.device' op @h100 has neither a name in the catalogue nor a file, must have one of them: catalogue = "nvidia/h100-sxm" or file = "device.yaml"}}
  fleet.device @h100
  fleet.pool @fast of @h100 count 16
}

// -----

fleet.system @dc {
  // expected-error@+1 {{'fleet.device' op @h100 has both a name in the catalogue and a file, must have one of them}}
  fleet.device @h100 {catalogue = "nvidia/h100-sxm", file = "h100.yaml"}
  fleet.pool @fast of @h100 count 16
}

// -----

fleet.system @dc {
  // expected-error@+1 {{'fleet.device' op set is 'papers', must be 'datasheet' or 'paper'}}
  fleet.device @h100 {catalogue = "nvidia/h100-sxm", set = "papers"}
  fleet.pool @fast of @h100 count 16
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op names @h10, but there is no such fleet.device; did you mean 'h100'?}}
  fleet.pool @fast of @h10 count 16
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @gaudi3 {catalogue = "intel/gaudi3"}
  // expected-error@+1 {{'fleet.pool' op names @tpu, but there is no such fleet.device; known are 'h100', 'gaudi3'}}
  fleet.pool @fast of @tpu count 16
}

// -----

fleet.system @dc {
  // expected-error@+1 {{'fleet.pool' op names @tpu, but there is no such fleet.device; there are none}}
  fleet.pool @fast of @tpu count 16
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  // expected-error@+1 {{'fleet.pool' op names @fast, which is 'fleet.pool', must be fleet.device}}
  fleet.pool @more of @fast count 16
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op @fast has 0 devices, must have at least one}}
  fleet.pool @fast of @h100 count 0
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op @fast has 32 devices in a node and 16 in all}}
  fleet.pool @fast of @h100 count 16 per_node 32
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op @fast has 12 devices, which is no whole number of nodes of 8}}
  fleet.pool @fast of @h100 count 12 per_node 8 whole_nodes
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op price is 2.990000e+00 : f64, must be #fleet.rental<…> or #fleet.owned<…>}}
  fleet.pool @fast of @h100 count 16 price 2.99 : f64
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op availability is 95, plausible is 0.01 to 1; it is a fraction: 95 % is 0.95}}
  fleet.pool @fast of @h100 count 16 {availability = 95.0}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  // expected-error@+1 {{'fleet.link' op gigabytes_per_second is 50000000000, plausible is 0.001 to 20000; is it in GB/s (10^9 bytes), not bits or bytes?}}
  fleet.link @fast to @fast {gigabytes_per_second = 5.0e10, microseconds = 1.0}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  // expected-error@+1 {{'fleet.link' op microseconds is infinite, must be a number}}
  fleet.link @fast to @fast {gigabytes_per_second = 50.0, microseconds = 0x7FF0000000000000 : f64}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  // expected-error@+1 {{'fleet.link' op dollars_per_gigabyte is 90, plausible is 1.0e-06 to 10; is it in dollars per 10^9 bytes?}}
  fleet.link @fast to @fast {gigabytes_per_second = 50.0, microseconds = 1.0, dollars_per_gigabyte = 90.0}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  // expected-error@+1 {{'fleet.link' op names @fasd, but there is no such fleet.pool; did you mean 'fast'?}}
  fleet.link @fast to @fasd {gigabytes_per_second = 50.0, microseconds = 1.0}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
  fleet.pool @slow of @h100 count 16
  // expected-note@+1 {{the first is here}}
  fleet.link @fast to @slow {gigabytes_per_second = 50.0, microseconds = 1.0}
  // expected-error@+1 {{'fleet.link' op is a second link from @slow to @fast, must be the only one}}
  fleet.link @slow to @fast {gigabytes_per_second = 25.0, microseconds = 1.0}
}

// -----

// expected-error@+1 {{rental has no dollars_per_hour}}
module attributes {test.price = #fleet.rental<>} {}

// -----

// expected-error@+1 {{dollars_per_hour is -1, must not be negative}}
module attributes {test.price = #fleet.rental<dollars_per_hour = -1.0>} {}

// -----

// expected-error@+1 {{'dollars_per_year' is unknown here; did you mean 'dollars_per_hour'?}}
module attributes {test.price = #fleet.rental<dollars_per_year = 5>} {}

// -----

// expected-error@+1 {{'dollars_per_hour' is given twice}}
module attributes {test.price = #fleet.rental<dollars_per_hour = 5, dollars_per_hour = 6>} {}

// -----

// expected-error@+1 {{expected a number, there is "five"}}
module attributes {test.price = #fleet.rental<dollars_per_hour = "five">} {}

// -----

// expected-error@+1 {{owned has no interest}}
module attributes {test.price = #fleet.owned<dollars = 30000, years = 4, dollars_per_kilowatt_hour = 0.4>} {}

// -----

// expected-error@+1 {{interest is 8, plausible is 0.0001 to 0.5; 8 % a year is 0.08}}
module attributes {test.price = #fleet.owned<dollars = 30000, years = 4, interest = 8, dollars_per_kilowatt_hour = 0.4>} {}

// -----

// expected-error@+1 {{years is 48, plausible is 0.25 to 30; is it in years?}}
module attributes {test.price = #fleet.owned<dollars = 30000, years = 48, interest = 0.08, dollars_per_kilowatt_hour = 0.4>} {}

// -----

// expected-error@+1 {{dollars is 3, plausible is 10 to 10000000; is it in dollars, of one device?}}
module attributes {test.price = #fleet.owned<dollars = 3, years = 4, interest = 0.08, dollars_per_kilowatt_hour = 0.4>} {}

// -----

// expected-error@+1 {{dollars_per_kilowatt_hour is 40, plausible is 0.001 to 3; is it in dollars per kWh, not cents?}}
module attributes {test.price = #fleet.owned<dollars = 30000, years = 4, interest = 0.08, dollars_per_kilowatt_hour = 40>} {}

// -----

// expected-error@+1 {{replicas is 0, must be between 1 and 1000000}}
module attributes {test.place = #fleet.placement<@dc::@fast, replicas = 0>} {}

// -----

// expected-error@+1 {{expert is 8, must divide tensor * data, which is 4}}
module attributes {test.place = #fleet.placement<@dc::@fast, tensor = 4, expert = 8>} {}

// -----

// expected-error@+1 {{parts is 3, must be 1, 2, 4 or 8}}
module attributes {test.place = #fleet.placement<@dc::@fast, parts = 3>} {}

// -----

// expected-error@+1 {{a replica takes one of 4 parts of a device, and 2 devices}}
module attributes {test.place = #fleet.placement<@dc::@fast, tensor = 2, parts = 4>} {}

// -----

// expected-error@+1 {{precision 'bf61' is unknown; did you mean 'bf16'?}}
module attributes {test.place = #fleet.placement<@dc::@fast, precision = "bf61">} {}

// -----

// expected-error@+1 {{'fleet.system' op has no attribute 'power_cap_kilowats'; did you mean 'power_cap_kilowatts'?}}
fleet.system @dc attributes {power_cap_kilowats = 3.0} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op has no attribute 'availabilty'; did you mean 'availability'?}}
  fleet.pool @fast of @h100 count 16 {availabilty = 0.5}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op sym_name has the control character U+000A, which no name or text may have; leave it out}}
  fleet.pool @"fast\0Atouch pwned" of @h100 count 16
}

// -----

fleet.system @dc {
  // expected-error@+1 {{'fleet.device' op catalogue has the control character U+007F}}
  fleet.device @h100 {catalogue = "nvidia/h100-sxm\7F"}
  fleet.pool @fast of @h100 count 16
}

// -----

// What has a dialect's prefix is somebody else's.
fleet.system @dc attributes {test.owner = "us\0Aand them"} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 16 {test.rack = 3 : i64}
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op @fast has -4 devices, must have at least one}}
  fleet.pool @fast of @h100 count -4
}

// -----

fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  // expected-error@+1 {{'fleet.pool' op @fast has 1000000000 devices, must have at most 10000000: no fleet has more}}
  fleet.pool @fast of @h100 count 1000000000
}
