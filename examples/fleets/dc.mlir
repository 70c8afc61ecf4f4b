// Three kinds of device to choose from: H100s at a rental price, Gaudi 3 and L4 at what the catalogue says.
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @gaudi3 {catalogue = "intel/gaudi3"}
  fleet.device @l4 {catalogue = "nvidia/l4"}
  fleet.pool @fast of @h100 count 64 per_node 8 price #fleet.rental<dollars_per_hour = 2.99>
  fleet.pool @cheap of @gaudi3 count 64 per_node 8
  fleet.pool @small of @l4 count 16 per_node 4
  fleet.link @fast to @cheap {gigabytes_per_second = 50.0, microseconds = 10.0}
  fleet.link @fast to @small {gigabytes_per_second = 12.5, microseconds = 20.0}
  fleet.link @cheap to @small {gigabytes_per_second = 12.5, microseconds = 20.0}
}
