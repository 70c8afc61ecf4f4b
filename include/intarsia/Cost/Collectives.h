//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of collectives by the alpha-beta model: a message of n bytes between two devices takes alpha + n / bandwidth.
// For p devices and n bytes a device (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations
// in MPICH", IJHPCA 19(1), 2005; the star: TPI-LLM, arXiv 2410.00531, section 3.2):
//
//   all-reduce   ring                2 (p - 1) alpha + 2 (p - 1) / p · n / bandwidth
//                tree, pipelined     2 log2(p) alpha + 2 n / bandwidth
//                recursive doubling  log2(p) alpha + log2(p) · n / bandwidth
//                star                2 alpha + 2 (p - 1) n / bandwidth, at the link of the device in the middle
//                hierarchical        reduce-scatter in a node, ring of the parts between nodes, all-gather in the node
//   gather, reduce-scatter (ring)    (p - 1) alpha + (p - 1) / p · n / bandwidth, n being all parts together
//   all-to-all                       (p - 1) alpha + (p - 1) / p · n / bandwidth, n being what a device sends in all
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_COLLECTIVES_H
#define INTARSIA_COST_COLLECTIVES_H

namespace intarsia {

/// A connection between devices: microseconds before the first byte arrives, and 10^9 bytes a second in one direction.
struct Link {
  double alphaUs = 0, gigabytesPerSecond = 0;

  /// Returns microseconds for a message between two devices.
  double microseconds(double bytes) const { return alphaUs + transferUs(bytes); }
  double transferUs(double bytes) const { return bytes / gigabytesPerSecond * 1e-3; }
};

enum class AllReduce { Ring, Tree, RecursiveDoubling, Star };

/// Returns microseconds of an all-reduce of `bytes` on each of `devices` devices.
double allReduceUs(AllReduce algorithm, double devices, double bytes, const Link &link);
/// Returns the same by the fastest algorithm.
double fastestAllReduceUs(double devices, double bytes, const Link &link, AllReduce *algorithm = nullptr);
/// Returns microseconds of a ring all-gather or reduce-scatter; `bytes` are all parts together.
double allGatherUs(double devices, double bytes, const Link &link);
/// Returns microseconds of an all-to-all, in which each device sends `bytes` in all, to itself included.
double allToAllUs(double devices, double bytes, const Link &link);

/// A group of devices at equal distances in a row of nodes: member i is device i · stride of the row. Other groups, of
/// the devices in between, communicate at the same time and share the network adapters, one for each device of a node.
struct DeviceGroup {
  double devices = 1, stride = 1;
};

/// Links of a cluster: in a node (or whatever one link reaches), and from each device to the network.
struct ClusterLinks {
  Link node, network;
  double nodeDevices = 1;
  double ringAdapters = 1; ///< of a node that rings leave by at once, if as many members are in it

  /// Returns how many members of a group are in one node.
  double membersInNode(const DeviceGroup &group) const;
  /// Returns the network as a ring of the group sees it: the ring leaves a node once, by `ringAdapters` of those of its
  /// members there, and is never faster than the link in a node. Its steps start as they do on average over its links.
  Link ringNetwork(const DeviceGroup &group) const;
  /// All-reduce within nodes and between them; the faster of the hierarchical one and one ring.
  double allReduceUs(const DeviceGroup &group, double bytes) const;
  /// One ring, as libraries gather.
  double allGatherUs(const DeviceGroup &group, double bytes) const;
  /// Devices of the own node are reached by its link while others are by the network.
  double allToAllUs(const DeviceGroup &group, double bytes) const;
  /// Message between neighbours of a group.
  double sendUs(const DeviceGroup &group, double bytes) const;
};

} // namespace intarsia

#endif
