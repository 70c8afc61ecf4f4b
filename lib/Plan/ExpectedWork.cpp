//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Fleet/Figures.h"
#include "lib/Plan/Passes.h"
#include "lib/Plan/Sizes.h"

#include <cmath>

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANEXPECTEDWORK
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;
using namespace intarsia::plan;

namespace {
/// Rounds to six digits: more would claim more than is known.
double rounded(double number) {
  if (number == 0)
    return 0;
  double unit = std::pow(10, 5 - std::floor(std::log10(std::fabs(number))));
  // Divides by a power of ten, which is exact, instead of multiplying by one below 1, which is not.
  return unit >= 1 ? std::round(number * unit) / unit
                   : std::round(number / std::round(1 / unit)) * std::round(1 / unit);
}

FloatAttr figure(MLIRContext *context, double number) {
  return FloatAttr::get(Float64Type::get(context), rounded(number));
}

/// Returns an attribute: a mean, with the 95th percentile where the amount varies and that is above the mean. Null for
/// 0.
AmountAttr tokens(MLIRContext *context, Spread spread) {
  double mean = rounded(spread.mean);
  if (mean < 0.01)
    return {};
  Amount amount = Amount::lognormal(spread.mean, spread.variance);
  double p95 = amount.isConstant() ? 0 : rounded(amount.p95());
  if (p95 <= mean)
    return AmountAttr::get(context, mean, Unit::Tokens);
  return AmountAttr::get(context, figure(context, mean), Unit::Tokens, DenseF64ArrayAttr::get(context, {95.0}),
                         DenseF64ArrayAttr::get(context, {p95}), FloatAttr());
}

struct PlanExpectedWork : plan::impl::PlanExpectedWorkBase<PlanExpectedWork> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    bool failure = false;
    for (GraphOp graph : getOperation().getOps<GraphOp>()) {
      FailureOr<ExpectedSizes> sizes = ExpectedSizes::compute(graph, tables);
      if (failed(sizes)) {
        failure = true;
        continue;
      }
      graph.walk([&](Operation *op) { failure |= failed(annotate(op, *sizes, tables)); });
    }
    if (failure)
      signalPassFailure();
  }

  LogicalResult annotate(Operation *op, const ExpectedSizes &sizes, SymbolTableCollection &tables) {
    MLIRContext *context = &getContext();
    if (auto loop = dyn_cast<LoopOp>(op); loop && !loop.getRunProbabilities())
      loop.setRunProbabilities(runProbabilitiesOf(loop));
    if (auto task = dyn_cast<TaskOpInterface>(op)) {
      Executions executions = executionsOf(op);
      task.setWorkAttr(
          WorkAttr::get(context, figure(context, executions.expected), figure(context, executions.probability)));
    }
    if (auto prefill = dyn_cast<PrefillOp>(op)) {
      PromptWork work = sizes.ofPrompt(prefill);
      if (AmountAttr fresh = tokens(context, work.newTokens))
        prefill.setNewTokensAttr(fresh);
      if (AmountAttr cached = tokens(context, work.cachedTokens))
        prefill.setCachedTokensAttr(cached);
    }
    auto decode = dyn_cast<DecodeOp>(op);
    if (!decode)
      return success();
    Amount prompt = sizes.of(decode.getCache());
    Spread before = {prompt.mean(), prompt.variance()};
    if (AmountAttr amount = tokens(context, before))
      decode.setContextTokensAttr(amount);
    auto model = tables.lookupNearestSymbolFrom<ModelOp>(op, decode.getModelAttr());
    double answer = decode.getSizeAttr().getMeanValue();
    if (model.getContextTokens() && before.mean + answer > static_cast<double>(*model.getContextTokens()))
      return op->emitError() << "prompt and answer have " << figureText(rounded(before.mean + answer))
                             << " tokens on average (" << figureText(rounded(before.mean)) << " and "
                             << figureText(rounded(answer)) << "), @" << model.getSymName() << " has room for "
                             << *model.getContextTokens() << "; shorten what it reads, or take another model";
    return success();
  }
};
} // namespace
