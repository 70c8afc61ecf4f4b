//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The operators of a decoder on one device: which matrix kernels a step or a prompt runs, and how long they take there
// by the formula of GPU kernels (intarsia/Cost/GpuKernels.h).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COST_SERVINGOPERATORS_H
#define INTARSIA_LIB_COST_SERVINGOPERATORS_H

#include "intarsia/Cost/GpuKernels.h"
#include "intarsia/Cost/ServingCost.h"
#include <map>
#include <memory>
#include <tuple>

namespace intarsia {

/// Microseconds of the operators of all layers on one device, by kind, launches included.
struct OperatorTimes {
  double linearUs = 0;    ///< linears: of attention, of dense and shared feed-forward parts, routers, the head
  double attentionUs = 0; ///< attention over the cache or over the prompt, updates of states
  double expertsUs = 0;   ///< routed experts
};

/// Operators of a deployment. Times are remembered by what was asked: one thread at a time may ask.
class ServingOperators {
public:
  /// The error names a figure that the catalogue lacks. A device without a number of multiprocessors or a last cache
  /// has those of the measured device that stands for it (`efficiency_of`), whose figures it takes too.
  static llvm::Expected<ServingOperators> create(const Deployment &what, double dispersion);

  /// Returns the operators of a step in which each replica computes `positions` tokens of `sequences` sequences, which
  /// have `context` tokens each.
  OperatorTimes step(double sequences, double positions, double context) const;
  /// Returns the operators of `prompts` prompts of `tokens` tokens each, which a replica computes together.
  OperatorTimes prompt(double prompts, double tokens) const;
  /// Returns by how much such prompts extend `steps` steps over which their tokens are spread, and in each of which the
  /// replica computes `beside` tokens of other sequences as well: the weights are read once for all of them.
  OperatorTimes promptBeside(double prompts, double tokens, double beside, double steps) const;
  /// Returns microseconds of an all-reduce of `bytes` between `devices` of one node.
  double allReduceUs(double devices, double bytes) const;

private:
  ServingOperators() = default;
  double linearUs(double rows, double columns, double depth, NumberFormat format, double matrices = 1) const;
  double projectionsUs(const AttentionLayers &layers, double rows, bool isPrompt) const;
  double feedForwardUs(double rows, double width) const;
  /// Returns the parts that every token passes beside its experts, in a step of decoding: what they take longer.
  double sharedBesideUs(double rows, double expertsUs) const;
  double expertsUs(double rows) const;
  double headUs(double rows) const;
  /// Returns linears without the head, and experts.
  OperatorTimes rowsOf(double rows, bool isPrompt) const;
  double decodeUs(const AttentionLayers &layers, double sequences, double positions, double context) const;
  double prefillUs(const AttentionLayers &layers, double prompts, double tokens) const;

  Deployment what;
  double dispersion = 0; ///< see ModelShape::expertsTouched
  double linkGBps = 0;
  std::shared_ptr<const CatalogueDevice> device; ///< of the deployment, completed
  std::shared_ptr<const GpuCosts> costs;
  const AllReduceFigures *reduction = nullptr;
  mutable std::map<std::tuple<bool, double>, OperatorTimes> byRows;
  mutable std::map<std::tuple<bool, double, double, double, double>, OperatorTimes> byQuestion;
};

} // namespace intarsia

#endif
