// H100s beside one wafer that is rented. The price of the wafer is the user's: none is published by the hour.
fleet.system @beside {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @wafer {catalogue = "cerebras/wse-2"}
  fleet.pool @gpus of @h100 count 8 per_node 8 price #fleet.rental<dollars_per_hour = 2.99>
  fleet.pool @wafers of @wafer count 2 price #fleet.rental<dollars_per_hour = 30.0>
  fleet.link @gpus to @wafers {gigabytes_per_second = 12.5, microseconds = 20.0}
}
