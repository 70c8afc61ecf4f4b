//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// One language model on a few unlike devices, a token at a time: which device has how many layers, and how long a token
// takes. The problem is that of PRIMA.CPP's scheduler (arXiv 2504.08791, section 3) without its prefetching. A token
// reads the weights that it is multiplied by once: all of a layer, or of a mixture of experts the parts that all tokens
// pass and the experts that are chosen. A layer takes the longer of these bytes over the bandwidth of the memory that
// holds it, and of its flops over the rate of the processor beside that memory:
//
//   device   n layers: as many as fit are in the accelerator's memory, the others in the host's. If what a token reads
//            of these does not fit there, all of it comes from the disk again for each token: a file that is mapped and
//            read in turn always has just lost what comes next (least recently used pages leave first). If only the
//            experts do not fit, those that are chosen come from the disk as often as they are not among those held
//   ring     a message for each device that has layers, if there are several
//   tensor   every device has 1 / p of each layer; two all-reduces a layer by a star (TPI-LLM, arXiv 2410.00531,
//   section
//            3.2)
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_FLEETPLACEMENT_H
#define INTARSIA_COST_FLEETPLACEMENT_H

#include "intarsia/Cost/Collectives.h"
#include "intarsia/Cost/ModelShape.h"
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

/// Bandwidths in 10^9 bytes a second; 0: there is none. Rates in 10^12 operations a second, of the elements that the
/// model is computed in; 0: not known, so that the memory alone bounds.
struct FleetDevice {
  std::string name;
  double acceleratorGBps = 0, acceleratorBytes = 0;
  double hostGBps = 0, hostBytes = 0;
  double diskGBps = 0;
  double acceleratorTflops = 0, hostTflops = 0;
};

/// All layers have the same bytes, embeddings and the head shared out among them.
struct FleetModel {
  int layers = 0;
  double layerBytes = 0;
  double hidden = 0, activationBytes = 4; ///< of an element that devices exchange
  double expertBytes = 0;                 ///< of `layerBytes` those of routed experts
  double chosenBytes = 0;                 ///< of `expertBytes` those of the experts that a token chooses
  double layerFlops = 0;                  ///< of a token

  /// Returns the model in `bits` a weight.
  static FleetModel of(const ModelShape &shape, double bits);
  /// Returns the bytes of a layer that a token reads.
  double readBytes() const { return layerBytes - expertBytes + chosenBytes; }
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
