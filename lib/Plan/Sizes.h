//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Sizes of the values of an agent graph, run by run, and the tokens that language models find in their caches.
//
// The graph is walked as a request would walk it, with expectations instead of numbers: a loop's run k counts with the
// probability that it happens, a branch gives the mixture of its cases. A value is a sequence of segments, each made
// once, by one task or by the request; joins concatenate them. Two prompts share a prefix as far as their segments are
// the same.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_SIZES_H
#define INTARSIA_LIB_PLAN_SIZES_H

#include "dialects/Agent/Agent.h"
#include "lib/Support/Amount.h"

namespace intarsia::plan {

/// Mean and variance of an amount that is a sum or a mixture.
struct Spread {
  double mean = 0, variance = 0;
};

/// Work of one execution of a prefill, in tokens: the mean over the executions that happen.
struct PromptWork {
  Spread newTokens;       ///< computed
  Spread cachedTokens;    ///< found in the cache, from the run before or from instructions that requests share
  Spread generatedTokens; ///< the new tokens that this model itself wrote before: cached too if its decode's cache is
                          ///< in reach
};

class ExpectedSizes {
public:
  /// Computes the sizes. Fails, with an error, if a call is left (run `plan-inline-calls` first) or loops run too often
  /// to be walked.
  static mlir::FailureOr<ExpectedSizes> compute(agent::GraphOp graph, mlir::SymbolTableCollection &tables);

  /// Returns the size of a value, in its unit, over all executions of its producer; exactly as declared, if it was.
  Amount of(mlir::Value value) const;
  /// Returns the work over all executions of a prefill; `byRun`: in run k = 0, 1, … of the innermost loop around it
  /// (one entry without a loop).
  PromptWork ofPrompt(mlir::Operation *prefill) const;
  std::vector<PromptWork> byRun(mlir::Operation *prefill) const;

  /// Weighted sums over executions.
  struct Tally {
    double weight = 0, first = 0, second = 0;
    void add(double w, Spread spread);
    Spread spread() const;
  };
  struct PromptTally {
    Tally fresh, cached, generated;
    PromptWork work() const { return {fresh.spread(), cached.spread(), generated.spread()}; }
  };
  struct ValueTally {
    Tally size;
    agent::AmountAttr said; ///< set if each execution has exactly this amount
  };

private:
  llvm::DenseMap<mlir::Value, ValueTally> values;
  /// Amounts that were asked for: many tasks may read a text, and a lognormal through a percentile is a search.
  mutable llvm::DenseMap<mlir::Value, Amount> amounts;
  llvm::DenseMap<mlir::Operation *, PromptTally> prompts;
  llvm::DenseMap<mlir::Operation *, std::vector<PromptTally>> promptsByRun;
  friend class SizeWalk;
};

/// Returns the probabilities of a loop's runs, P(1), P(2), …: as declared, or the maximum-entropy distribution with its
/// mean and bound.
std::vector<double> runProbabilitiesOf(agent::LoopOp loop);

/// Expected executions of an op in a request, and the probability of at least one, by the regions around it.
struct Executions {
  double expected = 1, probability = 1;
};
Executions executionsOf(mlir::Operation *op);

} // namespace intarsia::plan

#endif
