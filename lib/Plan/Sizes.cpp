//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Sizes.h"

#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;
using namespace intarsia::plan;

//===-- Sums --------------------------------------------------------------------------------------------------===//

void ExpectedSizes::Tally::add(double w, Spread spread) {
  weight += w;
  first += w * spread.mean;
  second += w * (spread.variance + spread.mean * spread.mean);
}

Spread ExpectedSizes::Tally::spread() const {
  if (weight <= 0)
    return {};
  double mean = first / weight, variance = second / weight - mean * mean;
  // Rounding differences between equal numbers are not variance.
  return {mean, variance > 1e-12 * mean * mean ? variance : 0};
}

//===-- Loops, branches, maps around an op --------------------------------------------------------------------===//

std::vector<double> plan::runProbabilitiesOf(LoopOp loop) {
  if (loop.getRunProbabilities())
    return loop.getRunProbabilities()->vec();
  AmountAttr runs = loop.getRuns();
  return runProbabilities(runs.getMeanValue(), static_cast<unsigned>(runs.getMax().getValueAsDouble()));
}

static double meanRuns(ArrayRef<double> probabilities) {
  double mean = 0;
  for (auto [index, probability] : llvm::enumerate(probabilities))
    mean += (index + 1) * probability;
  return mean;
}

Executions plan::executionsOf(Operation *op) {
  Executions result;
  for (Operation *parent = op->getParentOp(); parent && !isa<GraphOp>(parent);
       op = parent, parent = op->getParentOp()) {
    if (auto branch = dyn_cast<BranchOp>(parent)) {
      double probability = branch.getProbabilities()[op->getParentRegion()->getRegionNumber()];
      result.expected *= probability;
      result.probability *= probability;
    } else if (auto loop = dyn_cast<LoopOp>(parent)) {
      std::vector<double> runs = runProbabilitiesOf(loop);
      result.expected *= meanRuns(runs);
      double never = 0, missed = 1;
      for (double probability : runs)
        never += probability * (missed *= 1 - result.probability);
      result.probability = 1 - never;
    } else if (auto map = dyn_cast<MapOp>(parent)) {
      Amount width = map.getWidth().getAmount();
      result.expected *= width.mean();
      double never = 0;
      constexpr int steps = 256;
      for (int step = 0; step < steps; ++step)
        never +=
            std::pow(1 - result.probability, width.isConstant() ? width.mean() : width.quantile((step + 0.5) / steps)) /
            steps;
      result.probability = 1 - never;
    }
  }
  result.probability = std::min(result.probability, result.expected);
  return result;
}

//===-- The walk ----------------------------------------------------------------------------------------------===//

namespace {
struct Segment {
  int64_t id = 0; ///< equal ids are the same text
  Spread size;
  Operation *producer = nullptr;
};

struct State {
  SmallVector<Segment, 4> segments;
  AmountAttr said; ///< set if the whole is exactly a declared amount

  Spread size() const {
    Spread sum;
    for (const Segment &segment : segments) {
      sum.mean += segment.size.mean;
      sum.variance += segment.size.variance;
    }
    return sum;
  }
};

/// Possible last prompts of a model, with their probabilities.
using History = std::vector<std::pair<double, SmallVector<Segment, 4>>>;

size_t commonSegments(ArrayRef<Segment> a, ArrayRef<Segment> b) {
  size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[count].id == b[count].id)
    ++count;
  return count;
}

Spread sumOf(ArrayRef<Segment> segments) {
  Spread sum;
  for (const Segment &segment : segments) {
    sum.mean += segment.size.mean;
    sum.variance += segment.size.variance;
  }
  return sum;
}
} // namespace

namespace intarsia::plan {
class SizeWalk {
public:
  SizeWalk(ExpectedSizes &result, SymbolTableCollection &tables) : result(result), tables(tables) {}

  LogicalResult walkGraph(GraphOp graph) {
    for (BlockArgument argument : graph.getBody().getArguments())
      if (AmountAttr size = graph.getArgumentSize(argument.getArgNumber()))
        set(argument, fresh(size, nullptr), 1);
      else
        set(argument, State(), 1);
    return walkBlock(graph.getBody().front(), 1, 1);
  }

private:
  // Limit of the walk: no plan can be made for a request that takes longer to walk.
  static constexpr int64_t mostSteps = 1'000'000;
  // Limit for texts that grow with each of many runs: some seconds of walking, and longer than the context of any
  // model.
  static constexpr int64_t mostParts = 20'000'000;

  ExpectedSizes &result;
  SymbolTableCollection &tables;
  llvm::DenseMap<Value, State> states;
  llvm::DenseMap<Operation *, History> histories;
  llvm::DenseMap<AmountAttr, Spread> spreads; ///< of declared amounts
  int64_t nextId = 0, steps = 0, parts = 0;
  int keepingLoops = 0;
  size_t run = 0; ///< run of the innermost loop

  State fresh(Spread size, Operation *producer) {
    State state;
    state.segments.push_back({nextId++, size, producer});
    return state;
  }
  State fresh(AmountAttr said, Operation *producer) {
    // A task in a loop says the same in each run, and a curve through percentiles takes a search.
    auto [known, inserted] = spreads.try_emplace(said);
    if (inserted) {
      Amount amount = said.getAmount();
      known->second = {amount.mean(), amount.variance()};
    }
    State state = fresh(known->second, producer);
    state.said = said;
    return state;
  }

  void set(Value value, State state, double weight) {
    auto [entry, inserted] = result.values.try_emplace(value);
    ExpectedSizes::ValueTally &tally = entry->second;
    tally.said = inserted || tally.said == state.said ? state.said : AmountAttr();
    tally.size.add(weight, state.size());
    states[value] = std::move(state);
  }

  State of(Value value) const { return states.lookup(value); }

  /// Returns one of several states by their probabilities: their common prefix, then a segment that mixes the rests.
  State mixture(ArrayRef<std::pair<double, State>> cases) {
    size_t common = cases.front().second.segments.size();
    for (const auto &[probability, state] : cases)
      common = std::min(common, commonSegments(cases.front().second.segments, state.segments));
    State mixed;
    mixed.segments.append(cases.front().second.segments.begin(), cases.front().second.segments.begin() + common);
    ExpectedSizes::Tally rest;
    bool same = true;
    for (const auto &[probability, state] : cases) {
      rest.add(probability, sumOf(ArrayRef(state.segments).drop_front(common)));
      same &= state.segments.size() == common;
    }
    if (!same)
      mixed.segments.push_back({nextId++, rest.spread(), nullptr});
    mixed.said = cases.front().second.said;
    for (const auto &[probability, state] : cases)
      if (state.said != mixed.said)
        mixed.said = AmountAttr();
    return mixed;
  }

  /// Walks a block: `weight` is the expected number of its executions here, `happens` the probability that it is
  /// executed given that the run of the innermost loop happens.
  LogicalResult walkBlock(Block &block, double weight, double happens) {
    for (Operation &op : block)
      if (failed(walkOp(&op, weight, happens)))
        return failure();
    return success();
  }

  LogicalResult walkOp(Operation *op, double weight, double happens) {
    if (++steps > mostSteps)
      return op->emitError() << "the loops around this run too often to be followed run by run (" << mostSteps
                             << " steps); lower their bounds";
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<JoinOp>([&](JoinOp join) -> LogicalResult {
          State state;
          for (Value part : join.getParts())
            llvm::append_range(state.segments, states[part].segments);
          if ((parts += int64_t(state.segments.size())) > mostParts)
            return op->emitError() << "the loops around this join texts of " << state.segments.size()
                                   << " parts and more, which is too many to be followed; lower their bounds, or join "
                                      "less";
          if (join.getParts().size() == 1)
            state.said = of(join.getParts().front()).said;
          set(join.getResult(), state, weight);
          return success();
        })
        .Case<StreamOp, TransferOp, KvTransferOp>([&](Operation *passing) {
          set(passing->getResult(0), of(passing->getOperand(0)), weight);
          return success();
        })
        .Case<RetrieveOp, SearchOp>([&](auto search) {
          if (search.getSizeAttr()) {
            set(search.getTexts(), fresh(search.getSizeAttr(), op), weight);
            return success();
          }
          auto index = tables.lookupNearestSymbolFrom<IndexOp>(op, search.getIndexAttr());
          double tokens = static_cast<double>(search.getTopK()) * index.getChunkTokens();
          set(search.getTexts(), fresh(Spread{tokens, 0}, op), weight);
          return success();
        })
        .Case<EncodeOp>([&](EncodeOp encode) {
          auto model = tables.lookupNearestSymbolFrom<ModelOp>(op, encode.getModelAttr());
          double factor = model.getTokensPerUnitAttr().getValueAsDouble();
          Spread input = of(encode.getInput()).size();
          set(encode.getFeatures(), fresh(Spread{input.mean * factor, input.variance * factor * factor}, op), weight);
          return success();
        })
        .Case<EmbedOp>([&](EmbedOp embed) {
          set(embed.getVector(), fresh(Spread{1, 0}, op), weight);
          return success();
        })
        .Case<PrefillOp>([&](PrefillOp prefill) { return walkPrefill(prefill, weight, happens); })
        .Case<LlmOp, InferOp, InvokeOp, ComputeOp, ReadOp, DecodeOp>([&](auto task) {
          set(task->getResult(0), fresh(task.getSizeAttr(), op), weight);
          return success();
        })
        .Case<BranchOp>([&](BranchOp branch) { return walkBranch(branch, weight, happens); })
        .Case<LoopOp>([&](LoopOp loop) { return walkLoop(loop, weight); })
        .Case<MapOp>([&](MapOp map) { return walkMap(map, weight, happens); })
        .Case<WriteOp, YieldOp, ReturnOp>([](auto) { return success(); })
        .Default([](Operation *other) {
          return other->emitError() << "'" << other->getName()
                                    << "' stands in the way of sizes; run plan-inline-calls before";
        });
  }

  LogicalResult walkPrefill(PrefillOp prefill, double weight, double happens) {
    // Instructions are equal for all requests: a segment of their own, with an id that no other has.
    SmallVector<Segment, 4> prompt;
    double instructions = prefill.getInstructionTokens().value_or(0);
    if (instructions > 0)
      prompt.push_back({-1, {instructions, 0}, nullptr});
    for (Value input : prefill.getInputs())
      llvm::append_range(prompt, of(input).segments);

    Operation *decode = nullptr;
    Value cache = prefill.getCache();
    while (cache && !decode) {
      Value next;
      for (Operation *user : cache.getUsers())
        if (auto transfer = dyn_cast<KvTransferOp>(user))
          next = transfer.getResult();
        else if (isa<DecodeOp>(user))
          decode = user;
      cache = next;
    }

    History &history = histories[prefill];
    Spread whole = sumOf(prompt);
    if (whole.mean <= 0)
      return prefill.emitError() << "the prompt is empty: its inputs have 0 tokens, and there are no "
                                    "instruction_tokens; a language model reads one token at least";
    double known = 0;
    ExpectedSizes::Tally cachedTally, freshTally, generatedTally;
    auto see = [&](double probability, size_t common) {
      if (prefill.getSharedInstructions())
        common = std::max<size_t>(common, 1);
      auto all = ArrayRef(prompt);
      cachedTally.add(probability, sumOf(all.take_front(common)));
      freshTally.add(probability, sumOf(all.drop_front(common)));
      SmallVector<Segment> own;
      llvm::copy_if(all.drop_front(common), std::back_inserter(own),
                    [&](const Segment &segment) { return decode && segment.producer == decode; });
      generatedTally.add(probability, sumOf(own));
      known += probability;
    };
    if (keepingLoops > 0)
      for (const auto &[probability, seen] : history)
        see(probability, commonSegments(prompt, seen));
    if (known < 1)
      see(1 - known, 0);

    ExpectedSizes::PromptTally &tally = result.prompts[prefill];
    std::vector<ExpectedSizes::PromptTally> &byRun = result.promptsByRun[prefill];
    if (byRun.size() <= run)
      byRun.resize(run + 1);
    for (ExpectedSizes::PromptTally *each : {&tally, &byRun[run]}) {
      each->fresh.add(weight, freshTally.spread());
      each->cached.add(weight, cachedTally.spread());
      each->generated.add(weight, generatedTally.spread());
    }

    if (keepingLoops > 0) {
      for (auto &entry : history)
        entry.first *= 1 - happens;
      llvm::erase_if(history, [](const auto &entry) { return entry.first < 1e-9; });
      history.emplace_back(happens, prompt);
    }
    set(prefill.getCache(), fresh(whole, prefill), weight);
    set(prefill.getFirst(), fresh(Spread{1, 0}, prefill), weight);
    return success();
  }

  LogicalResult walkBranch(BranchOp branch, double weight, double happens) {
    SmallVector<SmallVector<std::pair<double, State>>> results(branch.getNumResults());
    for (auto [region, probability] : llvm::zip_equal(branch.getCases(), branch.getProbabilities())) {
      if (probability == 0)
        continue;
      if (failed(walkBlock(region.front(), weight * probability, happens * probability)))
        return failure();
      for (auto [index, value] : llvm::enumerate(region.front().getTerminator()->getOperands()))
        results[index].emplace_back(probability, of(value));
    }
    for (auto [value, cases] : llvm::zip_equal(branch.getResults(), results))
      set(value, mixture(cases), weight);
    return success();
  }

  LogicalResult walkLoop(LoopOp loop, double weight) {
    std::vector<double> probabilities = runProbabilitiesOf(loop);
    Block &body = loop.getBody().front();
    // Caches outlive the loop only inside an outer loop that keeps them.
    bool outerKeeps = keepingLoops > 0;
    if (!outerKeeps)
      histories.clear();
    if (loop.getKeepsPrefix())
      ++keepingLoops;
    SmallVector<State> carried;
    for (Value initial : loop.getInitial())
      carried.push_back(of(initial));
    SmallVector<SmallVector<std::pair<double, State>>> results(loop.getNumResults());
    llvm::DenseMap<Operation *, History> after;
    size_t outerRun = run;
    double remaining = 1;
    for (auto [index, probability] : llvm::enumerate(probabilities)) {
      if (remaining <= 0)
        break;
      run = index;
      for (auto [argument, state] : llvm::zip_equal(body.getArguments(), carried))
        set(argument, state, weight * remaining);
      // Given this run, all earlier runs happened: `happens` starts again at 1.
      if (failed(walkBlock(body, weight * remaining, 1)))
        return failure();
      for (auto [position, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
        carried[position] = of(value);
        if (probability > 0)
          results[position].emplace_back(probability, carried[position]);
      }
      if (outerKeeps && probability > 0)
        for (auto &[prefill, history] : histories)
          for (auto &[share, prompt] : history)
            after[prefill].emplace_back(share * probability, prompt);
      remaining -= probability;
      if (remaining < 1e-12)
        remaining = 0;
    }
    run = outerRun;
    if (loop.getKeepsPrefix())
      --keepingLoops;
    if (outerKeeps)
      histories = std::move(after);
    else
      histories.clear();
    for (auto [value, cases] : llvm::zip_equal(loop.getResults(), results))
      set(value, mixture(cases), weight);
    return success();
  }

  LogicalResult walkMap(MapOp map, double weight, double happens) {
    Amount width = map.getWidth().getAmount();
    double widthMean = width.mean(), widthVariance = width.variance();
    Block &body = map.getBody().front();
    State item;
    if (map.getEach()) {
      item = fresh(*map.getEach(), map);
    } else {
      Spread whole = of(map.getOver()).size();
      item = fresh(Spread{whole.mean / widthMean, whole.variance / (widthMean * widthMean)}, map);
    }
    set(body.getArgument(0), item, weight * widthMean);
    if (failed(walkBlock(body, weight * widthMean, happens)))
      return failure();
    // Variance of a sum over a random number of items: E[W] v + Var[W] m^2.
    for (auto [value, yielded] : llvm::zip_equal(map.getResults(), body.getTerminator()->getOperands())) {
      Spread one = of(yielded).size();
      set(value,
          fresh(Spread{widthMean * one.mean, widthMean * one.variance + widthVariance * one.mean * one.mean}, map),
          weight);
    }
    return success();
  }
};
} // namespace intarsia::plan

//===-- What was found ----------------------------------------------------------------------------------------===//

FailureOr<ExpectedSizes> ExpectedSizes::compute(GraphOp graph, SymbolTableCollection &tables) {
  ExpectedSizes result;
  if (failed(SizeWalk(result, tables).walkGraph(graph)))
    return failure();
  return result;
}

Amount ExpectedSizes::of(Value value) const {
  auto [known, inserted] = amounts.try_emplace(value);
  if (inserted) {
    ValueTally tally = values.lookup(value);
    Spread spread = tally.size.spread();
    known->second = tally.said ? tally.said.getAmount() : Amount::lognormal(spread.mean, spread.variance);
  }
  return known->second;
}

PromptWork ExpectedSizes::ofPrompt(Operation *prefill) const { return prompts.lookup(prefill).work(); }

std::vector<PromptWork> ExpectedSizes::byRun(Operation *prefill) const {
  std::vector<PromptWork> works;
  for (const PromptTally &tally : promptsByRun.lookup(prefill))
    works.push_back(tally.work());
  return works;
}
