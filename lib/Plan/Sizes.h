//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How large the values of an agent graph are, run by run, and what language models find computed already.
//
// The graph is walked as a request would walk it, with expectations in place of numbers: a loop's run k counts with the
// probability that it happens, a branch gives the mixture of its cases. A value is a sequence of segments, each made
// once, by one task or by the request; joins put them together. Two prompts share a prefix as far as their segments are
// the same ones.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_SIZES_H
#define INTARSIA_LIB_PLAN_SIZES_H

#include "dialects/Agent/Agent.h"
#include "lib/Support/Amount.h"

namespace intarsia::plan {

/// Means and variances of an amount that is a sum or a mixture.
struct Spread {
  double mean = 0, variance = 0;
};

/// What one execution of a prefill does, in tokens: the mean over those that happen.
struct PromptWork {
  Spread newTokens;    ///< computed
  Spread cachedTokens; ///< found from the run before, or from instructions that requests share
  Spread
      generatedTokens; ///< of the new ones, what this model itself wrote before: cached too where its decode's cache is
};

class ExpectedSizes {
public:
  /// Fails, with an error, if a call is left (`plan-inline-calls` takes them away) or loops run too often to be walked.
  static mlir::FailureOr<ExpectedSizes> compute(agent::GraphOp graph, mlir::SymbolTableCollection &tables);

  /// The size of a value, in its unit, over all executions of what produces it; exactly as it was said if it was.
  Amount of(mlir::Value value) const;
  /// All executions of a prefill; and those in run k of the innermost loop around it, k = 0, 1, … (one without a loop).
  PromptWork ofPrompt(mlir::Operation *prefill) const;
  std::vector<PromptWork> byRun(mlir::Operation *prefill) const;

  /// Sums of what was seen, each with the weight of its execution.
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
    agent::AmountAttr said; ///< where each execution has just this amount
  };

private:
  llvm::DenseMap<mlir::Value, ValueTally> values;
  llvm::DenseMap<mlir::Operation *, PromptTally> prompts;
  llvm::DenseMap<mlir::Operation *, std::vector<PromptTally>> promptsByRun;
  friend class SizeWalk;
};

/// How often a loop runs, P(1), P(2), …: as it says, or the distribution of largest entropy with its mean and bound.
std::vector<double> runProbabilitiesOf(agent::LoopOp loop);

/// The expected executions of an op for a request, and the probability of at least one, by what is around it.
struct Executions {
  double expected = 1, probability = 1;
};
Executions executionsOf(mlir::Operation *op);

} // namespace intarsia::plan

#endif
