# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write fleets: the machines that the planner may place agents on.

>>> from intarsia import fleet
>>> fast = fleet.Pool("fast", "nvidia/h100-sxm", count=16, per_node=8, dollars_per_hour=2.99)
>>> small = fleet.Pool("small", "nvidia/l4", count=16, per_node=4)
>>> switch = fleet.Network(gigabytes_per_second=12.5, microseconds=20)
>>> print(fleet.Fleet("dc", [fast, small], network=switch))
fleet.system @dc {
  fleet.device @"nvidia/h100-sxm" {catalogue = "nvidia/h100-sxm"}
  fleet.device @"nvidia/l4" {catalogue = "nvidia/l4"}
  fleet.pool @fast of @"nvidia/h100-sxm" count 16 per_node 8 price #fleet.rental<dollars_per_hour = 2.99>
  fleet.pool @small of @"nvidia/l4" count 16 per_node 4
  fleet.network {gigabytes_per_second = 12.5, microseconds = 20.0}
}

Ranges of figures are checked where the fleet is read, with the line of the printed file.
"""

from .agents.fleet import Fleet, FleetError, Link, Network, Owned, Pool

__all__ = ["Fleet", "FleetError", "Link", "Network", "Owned", "Pool"]

# Messages and help() show the public names.
for _name in __all__:
    globals()[_name].__module__ = __name__
