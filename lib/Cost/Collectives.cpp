//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Collectives.h"

#include <algorithm>
#include <cmath>

using namespace intarsia;

double intarsia::allReduceUs(AllReduce algorithm, double devices, double bytes, const Link &link) {
  if (devices <= 1)
    return 0;
  double stages = std::ceil(std::log2(devices));
  switch (algorithm) {
  case AllReduce::Ring:
    return 2 * (devices - 1) * link.alphaUs + 2 * (devices - 1) / devices * link.transferUs(bytes);
  case AllReduce::Tree:
    return 2 * stages * link.alphaUs + 2 * link.transferUs(bytes);
  case AllReduce::RecursiveDoubling:
    return stages * link.microseconds(bytes);
  case AllReduce::Star:
    return 2 * link.alphaUs + 2 * (devices - 1) * link.transferUs(bytes);
  }
  return 0;
}

double intarsia::fastestAllReduceUs(double devices, double bytes, const Link &link, AllReduce *algorithm) {
  double best = allReduceUs(AllReduce::Ring, devices, bytes, link);
  if (algorithm)
    *algorithm = AllReduce::Ring;
  for (AllReduce other : {AllReduce::Tree, AllReduce::RecursiveDoubling, AllReduce::Star}) {
    double time = allReduceUs(other, devices, bytes, link);
    if (time >= best)
      continue;
    best = time;
    if (algorithm)
      *algorithm = other;
  }
  return best;
}

double intarsia::allGatherUs(double devices, double bytes, const Link &link) {
  return devices <= 1 ? 0 : (devices - 1) * link.alphaUs + (devices - 1) / devices * link.transferUs(bytes);
}

double intarsia::allToAllUs(double devices, double bytes, const Link &link) {
  return allGatherUs(devices, bytes, link);
}

double ClusterLinks::membersInNode(const DeviceGroup &group) const {
  return std::clamp(std::floor(nodeDevices / group.stride), 1.0, group.devices);
}

Link ClusterLinks::ringNetwork(const DeviceGroup &group) const {
  double members = membersInNode(group);
  double alphaUs = (network.alphaUs + (members - 1) * node.alphaUs) / members;
  return {alphaUs, std::min(network.gigabytesPerSecond * std::min(members, ringAdapters), node.gigabytesPerSecond)};
}

double ClusterLinks::allReduceUs(const DeviceGroup &group, double bytes) const {
  double members = membersInNode(group), nodes = group.devices / members;
  if (nodes <= 1)
    return fastestAllReduceUs(members, bytes, node);
  double hierarchical =
      2 * intarsia::allGatherUs(members, bytes, node) + fastestAllReduceUs(nodes, bytes / members, network);
  return std::min(hierarchical, fastestAllReduceUs(group.devices, bytes, ringNetwork(group)));
}

double ClusterLinks::allGatherUs(const DeviceGroup &group, double bytes) const {
  double members = membersInNode(group), nodes = group.devices / members;
  if (nodes <= 1)
    return intarsia::allGatherUs(members, bytes, node);
  return intarsia::allGatherUs(group.devices, bytes, ringNetwork(group));
}

double ClusterLinks::allToAllUs(const DeviceGroup &group, double bytes) const {
  double members = membersInNode(group);
  double inside = bytes * members / group.devices;
  double outside = bytes - inside;
  double far = outside > 0 ? (group.devices - members) * network.alphaUs + network.transferUs(outside) : 0;
  return std::max(intarsia::allToAllUs(members, inside, node), far);
}

double ClusterLinks::sendUs(const DeviceGroup &group, double bytes) const {
  return (group.stride < nodeDevices ? node : network).microseconds(bytes);
}
