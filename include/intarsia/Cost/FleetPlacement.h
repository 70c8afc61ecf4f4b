//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// One language model on a few unlike devices, a token at a time: which device has how many layers, and how long a token
// takes. The problem is that of PRIMA.CPP's scheduler (arXiv 2504.08791, section 3) without its prefetching; a token
// reads every weight once, so that a layer takes its bytes over the bandwidth of the memory that holds it:
//
//   device   n layers: as many as fit are in the accelerator's memory, the others in the host's. If these do not fit
//            there, all of them are read from the disk again for each token: a file that is mapped and read in turn
//            always has just lost what comes next (least recently used pages leave first)
//   ring     a message for each device that has layers, if there are several
//   tensor   every device has 1 / p of each layer; two all-reduces a layer by a star (TPI-LLM, arXiv 2410.00531,
//   section
//            3.2)
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_FLEETPLACEMENT_H
#define INTARSIA_COST_FLEETPLACEMENT_H

#include "intarsia/Cost/Collectives.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace intarsia {

/// Figures that are fitted (catalogue/efficiency/parallel.yaml), in the order of names().
struct FleetFigures {
  double accelerator = 0.6; ///< share of the accelerator's bandwidth
  double host = 0.8;        ///< share of the host's bandwidth
  double resident = 1.2;    ///< what stays in the host's memory as a multiple of what is free before: other files leave
  double disk = 0.9;        ///< share of the disk's bandwidth
  double messageUs = 4000;  ///< between two devices of a ring, in one wireless network

  static llvm::ArrayRef<llvm::StringRef> names();
  double &at(size_t index);
};

/// Bandwidths in 10^9 bytes a second; 0: there is none.
struct FleetDevice {
  std::string name;
  double acceleratorGBps = 0, acceleratorBytes = 0;
  double hostGBps = 0, hostBytes = 0;
  double diskGBps = 0;
};

/// All layers have the same bytes, embeddings and the head shared out among them.
struct FleetModel {
  int layers = 0;
  double layerBytes = 0;
  double hidden = 0, activationBytes = 4; ///< of an element that devices exchange
};

/// Returns microseconds of `layers` layers on a device for one token; infinite if the device cannot hold them.
double deviceUs(const FleetDevice &device, const FleetModel &model, int layers, const FleetFigures &figures);
/// Returns microseconds of a token with so many layers on each device.
double tokenUs(llvm::ArrayRef<FleetDevice> devices, const FleetModel &model, llvm::ArrayRef<int> layers,
               const FleetFigures &figures);
/// Returns microseconds of a token if all devices have equal parts of each layer, exchanged by a star of this link.
double tensorTokenUs(llvm::ArrayRef<FleetDevice> devices, const FleetModel &model, const Link &link,
                     const FleetFigures &figures);

enum class FleetObjective {
  Latency,     ///< the shortest token
  SlowestStage ///< the shortest time of the busiest device: many sequences are under way
};

/// Returns how many layers each device has, by a dynamic programme that is exact for the formula; devices may have
/// none. Empty if the devices cannot hold the model.
std::vector<int> placeLayers(llvm::ArrayRef<FleetDevice> devices, const FleetModel &model, FleetObjective objective,
                             const FleetFigures &figures);

} // namespace intarsia

#endif
