//===- PartitionSearch.cpp - How ranks share a model, by cost ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"
#include "intarsia/Partition/Partition.h"
#include "lib/Partition/KernelTimes.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/RankLoad.h"
#include "lib/Partition/RankTimes.h"
#include "lib/Partition/Rows.h"
#include "lib/Support/PromptParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

llvm::Expected<intarsia::Link> intarsia::parseNetwork(StringRef text) {
  static constexpr std::pair<StringLiteral, double> bandwidths[] = {
      {"Gbit/s", 0.125}, {"Mbit/s", 0.125e-3}, {"GB/s", 1}, {"MB/s", 1e-3}};
  static constexpr std::pair<StringLiteral, double> times[] = {{"us", 1}, {"ms", 1e3}};
  auto read = [](StringRef number, auto units, double &value) {
    for (auto [unit, factor] : units)
      if (number.consume_back(unit)) {
        number = number.trim();
        bool isNumber = !number.empty() && number.find_first_not_of("0123456789.") == StringRef::npos;
        if (!isNumber || number.getAsDouble(value) || !(value > 0))
          return false;
        value *= factor;
        return true;
      }
    return false;
  };
  Link link;
  auto [bandwidth, time] = text.split(',');
  if (read(bandwidth, ArrayRef(bandwidths), link.gigabytesPerSecond) && read(time, ArrayRef(times), link.alphaUs))
    return link;
  return llvm::createStringError("--rank-network=" + text +
                                 ": write the bandwidth of a host's adapter and the time of a short message, as in "
                                 "10Gbit/s,50us (Gbit/s, Mbit/s, GB/s, MB/s; us, ms; half of what ping prints)");
}

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONSEARCH
#include "lib/Partition/Passes.h.inc"

namespace {

/// One way to share the model, as it was tried.
struct Alternative {
  PartitionOptions options;
  std::string name;    ///< as --partition has it
  std::string refusal; ///< why the model cannot be shared so; empty: it can
  RankTimes times;
  std::string why; ///< it lost
};

struct PartitionSearch : impl::PartitionSearchBase<PartitionSearch> {
  using PartitionSearchBase::PartitionSearchBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<rt::RtDialect, nn::NnDialect, shard::ShardDialect, tensor::TensorDialect, linalg::LinalgDialect,
                    arith::ArithDialect>();
  }

  void runOnOperation() override {
    if (world < 2 && loadText().empty())
      return;
    ModuleOp module = getOperation();
    FailureOr<double> limit = memoryLimit();
    if (failed(readLinks()) || failed(readLoad()))
      return signalPassFailure();
    auto functions = module.getOps<func::FuncOp>();
    auto whole = llvm::find_if(functions, [](func::FuncOp function) { return !function.isExternal(); });
    if (failed(limit) || whole == functions.end())
      return failed(limit) ? signalPassFailure() : void();
    FailureOr<target::Device> device = target::deviceOf(*whole);
    if (failed(device))
      return signalPassFailure();
    FailureOr<std::shared_ptr<const CatalogueDevice>> read = rankFigures(module, figures, *device);
    if (failed(read))
      return signalPassFailure();
    measured = *read;
    std::vector<Alternative> all;
    if (isSearched())
      all = everyAlternative(functions);
    else if (failed(addGiven(all)))
      return signalPassFailure();
    for (Alternative &alternative : all)
      if (alternative.refusal.empty())
        tryOut(alternative, *device);
    if (!isSearched() && !all.front().refusal.empty())
      return carryOut(all.front()); // which gives the reason
    const Alternative *best = choose(all, *limit);
    if (!best) {
      refuse(all, *limit);
      return signalPassFailure();
    }
    report(all, *best);
    if (best->options.stages == 1) // else the cut of the layers says it
      remarkNotMeasured(module, figures, best->times.notMeasured, *device);
    carryOut(*best);
  }

private:
  void carryOut(const Alternative &chosen) {
    OpPassManager passes(ModuleOp::getOperationName());
    addRankPartition(passes, chosen.options);
    if (failed(runPipeline(passes, getOperation())))
      signalPassFailure();
  }

  bool isSearched() const { return partition == "auto" && world > 1; }

  /// Adds the one way that --partition names, or that there is one rank.
  LogicalResult addGiven(std::vector<Alternative> &all) {
    Alternative given;
    given.options.world = world;
    given.options.speeds.assign(speeds.begin(), speeds.end());
    given.options.figures = figures;
    if (world > 1)
      if (llvm::Error error = parsePartition(partition, given.options))
        return getOperation().emitError() << llvm::toString(std::move(error));
    given.name = world > 1 ? partitionText(given.options) : "one rank";
    all.push_back(std::move(given));
    return success();
  }

  /// All ways that the compiler can carry out; those that calls of the expected sizes have too few rows for are
  /// refused.
  template <typename Functions> std::vector<Alternative> everyAlternative(Functions functions) {
    std::vector<Alternative> all;
    bool hasExperts = getOperation().walk([](nn::ExpertsOp) { return WalkResult::interrupt(); }).wasInterrupted();
    bool hasCaches = hasState(getOperation());
    for (int64_t stages = 1; stages <= world; ++stages)
      for (int64_t experts = 1; experts <= (hasExperts ? world / stages : 1); ++experts)
        if (world % (stages * experts) == 0)
          all.push_back(alternativeOf(stages, /*rows=*/1, experts, hasCaches));
    // Rows of a call are shared evenly.
    for (int64_t rows = 2; rows <= (speeds.empty() ? int64_t(world) : 1); ++rows)
      for (int64_t experts = 1; experts <= (hasExperts ? world / rows : 1); ++experts)
        if (world % (rows * experts) == 0)
          all.push_back(alternativeOf(/*stages=*/1, rows, experts, hasCaches));
    if (hasCaches && speeds.empty()) {
      Alternative byHeads = alternativeOf(/*stages=*/1, world, /*experts=*/1, hasCaches);
      byHeads.options.heads = true;
      byHeads.name = partitionText(byHeads.options);
      all.push_back(std::move(byHeads));
    }
    if (hasCaches && load && load->prompt > 0)
      addTurns(all);
    addSequences(all, functions);
    int64_t rowsOfCall = expectedRows(functions);
    for (Alternative &alternative : all)
      // Attention by heads is shared in calls of one row too.
      if (int64_t rows = alternative.options.context * alternative.options.data;
          rows > rowsOfCall && !alternative.options.heads)
        alternative.refusal = llvm::formatv("calls of {0} at the expected sizes are not enough for {1} ranks",
                                            rowsOfCall == 1 ? "one row" : std::to_string(rowsOfCall) + " rows", rows);
    return all;
  }

  FailureOr<double> memoryLimit() {
    if (memory.empty())
      return std::numeric_limits<double>::infinity();
    llvm::Expected<uint64_t> limit = parseMemorySize(memory);
    if (limit)
      return double(*limit);
    llvm::consumeError(limit.takeError());
    getOperation().emitError() << "--rank-memory=" << memory
                               << ": is no size: write a positive number and a unit, as in 8GB, 7.5GiB or 512MB";
    return failure();
  }

  LogicalResult readLinks() {
    links = RankLinks();
    links.memory = ParallelFigures::get().sharedMemory;
    links.roundsMessages = messages;
    if (hosts.empty())
      return success();
    for (auto [host, count] : llvm::enumerate(hosts))
      links.hosts.append(std::max<int64_t>(count, 0), int64_t(host));
    if (int64_t(links.hosts.size()) != world || llvm::any_of(hosts, [](int64_t count) { return count < 1; }))
      return getOperation().emitError() << "--rank-hosts: the ranks of all hosts are " << links.hosts.size()
                                        << ", at least one each; --world has " << world.getValue();
    if (hosts.size() == 1)
      return success();
    llvm::Expected<Link> read = parseNetwork(network);
    if (!read)
      return getOperation().emitError() << llvm::toString(read.takeError());
    links.network = *read;
    return success();
  }

  /// Reads the load, and lets the functions expect its calls: those that continue its sequences, if there are any.
  LogicalResult readLoad() {
    load.reset();
    if (loadText().empty())
      return success();
    llvm::Expected<RankLoad> read = parseRankLoad(loadText());
    if (!read)
      return getOperation().emitError() << llvm::toString(read.takeError());
    load = *read;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || function.getBody().getOps<nn::WeightOp>().empty())
        continue;
      int64_t most = mostTokens(function), length = load->prompt + (hasState(function) ? load->tokens : 0);
      if (most > 0 && length > most)
        return getOperation().emitError()
               << "--rank-load=" << loadText() << ": sequences of " << length << " tokens are longer than the " << most
               << " that '" << function.getSymName() << "' takes";
      if (!hasState(function))
        expectExamples(function, *load);
      else if (load->tokens > 0)
        expectSizes(function, sizesOfStep(*load, load->sequences));
      else
        expectSizes(function, sizesOfPromptPart(*load, promptTokensOfCall()));
    }
    return success();
  }

  StringRef loadText() const { return loadOption.getValue(); }

  /// Returns how many tokens of prompts a call has where ranks are no pipeline.
  int64_t promptTokensOfCall() const {
    return load ? std::min(promptPart(load->sequences * load->prompt, /*stages=*/1), load->sequences * load->prompt)
                : 0;
  }

  /// Returns the most rows that a call of a function with weights has at the expected sizes.
  template <typename Functions> int64_t expectedRows(Functions functions) const {
    int64_t most = std::max<int64_t>(promptTokensOfCall(), 1);
    for (func::FuncOp function : functions) {
      if (function.isExternal() || function.getBody().getOps<nn::WeightOp>().empty())
        continue;
      WorkModel work(function);
      Rows rows(function);
      for (auto [symbol, expected] : llvm::enumerate(work.expected()))
        if (rows.isCount(symbol))
          most = std::max(most, int64_t(expected));
    }
    return most;
  }

  /// Adds each pipeline again with several stages for each rank, which prompts gain by. Interleaved
  /// parts need each message at once; parts that go through a turn all together leave it more time.
  void addTurns(std::vector<Alternative> &all) const {
    for (size_t number = 0, count = all.size(); number < count; ++number)
      for (int64_t turns : {2, 4}) {
        if (all[number].options.stages == 1)
          continue;
        Alternative more = all[number];
        more.options.turns = turns;
        more.options.isBreadthFirst = true;
        more.name = partitionText(more.options);
        all.push_back(std::move(more));
      }
  }

  /// Adds each way in which ranks share layers once more, with the rows around norms on different ranks, if a call has
  /// more than one token or example.
  template <typename Functions> void addSequences(std::vector<Alternative> &all, Functions functions) const {
    if (promptTokensOfCall() < 2 && !hasRows(functions))
      return;
    for (size_t number = 0, count = all.size(); number < count; ++number) {
      const PartitionOptions &options = all[number].options;
      if (options.stages * options.context * options.data == options.world)
        continue;
      Alternative sequence = all[number];
      sequence.options.sequence = true;
      sequence.name = partitionText(sequence.options);
      all.push_back(std::move(sequence));
    }
  }

  /// True if a product with a weight has several rows at the expected sizes.
  template <typename Functions> static bool hasRows(Functions functions) {
    return llvm::any_of(functions, [](func::FuncOp function) {
      WorkModel work(function);
      return llvm::any_of(function.getBody().getOps(), [&](Operation &op) {
        ContractionOpInterface product = asProductWithWeight(&op);
        return product &&
               work.elements(product.getLeft()) > cast<RankedTensorType>(product.getLeft().getType()).getShape().back();
      });
    });
  }

  Alternative alternativeOf(int64_t stages, int64_t rows, int64_t experts, bool hasCaches) const {
    Alternative alternative;
    alternative.options.world = world;
    alternative.options.stages = stages;
    alternative.options.experts = experts;
    (hasCaches ? alternative.options.context : alternative.options.data) = rows;
    alternative.options.speeds.assign(speeds.begin(), speeds.end());
    alternative.options.figures = figures;
    alternative.name = partitionText(alternative.options);
    return alternative;
  }

  /// Shares a copy of the model, and asks the cost model what its ranks take. Weights are not in the IR, so that a copy
  /// is small.
  void tryOut(Alternative &alternative, const target::Device &device) {
    OwningOpRef<ModuleOp> copy(getOperation().clone());
    ScopedDiagnosticHandler handler(&getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && alternative.refusal.empty())
        alternative.refusal = diagnostic.str();
      return success(); // remarks are about a copy
    });
    PassManager passes(&getContext(), ModuleOp::getOperationName());
    addRankPartition(passes, alternative.options);
    if (failed(passes.run(*copy))) {
      if (alternative.refusal.empty())
        alternative.refusal = "refused";
      return;
    }
    SmallVector<double> ranks(speeds.begin(), speeds.end());
    ranks.resize(world, 1.0);
    alternative.times = timesOfRanks(*copy, device, measured.get(), ranks, links, load);
  }

  /// Returns the fastest that fits, the first of equally fast ones; says why the others lost.
  static const Alternative *choose(std::vector<Alternative> &all, double limit) {
    const Alternative *best = nullptr;
    for (Alternative &alternative : all) {
      if (!alternative.refusal.empty())
        alternative.why = alternative.refusal;
      else if (alternative.times.fullestBytes > limit)
        alternative.why =
            llvm::formatv("needs {0:f3} MB of {1:f3} MB a rank", alternative.times.fullestBytes / 1e6, limit / 1e6);
      else if (!best || alternative.times.us < best->times.us)
        best = &alternative;
    }
    for (Alternative &alternative : all)
      if (alternative.why.empty() && &alternative != best)
        alternative.why = llvm::formatv("{0:f1} % slower", 100 * (alternative.times.us / best->times.us - 1));
    return best;
  }

  /// Says the least memory with which a way that can be carried out would fit, or why there is none.
  void refuse(ArrayRef<Alternative> all, double limit) {
    const Alternative *smallest = nullptr;
    for (const Alternative &alternative : all)
      if (alternative.refusal.empty() && (!smallest || alternative.times.fullestBytes < smallest->times.fullestBytes))
        smallest = &alternative;
    if (smallest) {
      getOperation().emitError() << llvm::formatv("--rank-memory={0}: no partition over {1} ranks fits; the smallest, "
                                                  "{2}, needs {3:f3} MB a rank: allow more, or "
                                                  "give a larger --world",
                                                  memory.getValue(), world.getValue(), smallest->name,
                                                  smallest->times.fullestBytes / 1e6);
      return;
    }
    InFlightDiagnostic error = getOperation().emitError()
                               << "--partition=auto: the model cannot be shared by " << world.getValue() << " ranks";
    for (const Alternative &alternative : all)
      error << "; " << alternative.name << ": " << alternative.refusal;
  }

  /// Prints the alternatives and records them on the module.
  void report(ArrayRef<Alternative> all, const Alternative &best) {
    Builder builder(&getContext());
    SmallVector<Attribute> recorded;
    std::string text = loadText().empty() ? "" : ("--rank-load=" + loadText() + ": predicted times").str();
    if (isSearched())
      text = llvm::formatv("--partition=auto over {0} ranks{1}{2}: {3}", world.getValue(),
                           hosts.size() > 1 ? " of " + std::to_string(hosts.size()) + " hosts" : "",
                           load ? (" for " + loadText()).str() : "", best.name);
    size_t longest = 0;
    for (const Alternative &alternative : all)
      longest = std::max(longest, alternative.name.size());
    for (const Alternative &alternative : all) {
      bool isBest = &alternative == &best;
      const RankTimes &times = alternative.times;
      text += "\n  " + alternative.name + std::string(longest + 1 - alternative.name.size(), ' ');
      bool isSplit = times.promptsUs > 0 || times.tokensUs > 0;
      if (alternative.refusal.empty())
        text += llvm::formatv(
            "{0:f1} us{1}{2}, {3:f3} MB{4}{5}", times.us,
            isSplit
                ? llvm::formatv(" ({0:f1} us for prompts, {1:f1} us for tokens)", times.promptsUs, times.tokensUs).str()
                : " a step",
            world == 1 ? "" : llvm::formatv(", {0:f1} us of them in exchanges", times.exchangesUs).str(),
            times.fullestBytes / 1e6, world == 1 ? "" : " on the fullest rank", isBest ? "" : ": ");
      text += alternative.why;
      SmallVector<NamedAttribute> fields = {
          builder.getNamedAttr("partition", builder.getStringAttr(alternative.name)),
          builder.getNamedAttr("chosen", builder.getStringAttr(isBest ? "yes" : "no")),
          builder.getNamedAttr("why", builder.getStringAttr(!isSearched() ? "asked for"
                                                            : isBest      ? "the fastest that fits"
                                                                          : alternative.why))};
      if (alternative.refusal.empty()) {
        fields.push_back(builder.getNamedAttr("expected_us", builder.getF64FloatAttr(times.us)));
        fields.push_back(builder.getNamedAttr("exchanges_us", builder.getF64FloatAttr(times.exchangesUs)));
        if (isSplit) {
          fields.push_back(builder.getNamedAttr("prompts_us", builder.getF64FloatAttr(times.promptsUs)));
          fields.push_back(builder.getNamedAttr("tokens_us", builder.getF64FloatAttr(times.tokensUs)));
        }
        fields.push_back(builder.getNamedAttr("rank_bytes", builder.getI64IntegerAttr(int64_t(times.fullestBytes))));
      }
      recorded.push_back(builder.getDictionaryAttr(fields));
    }
    getOperation()->setAttr(partitionAttr, builder.getArrayAttr(recorded));
    getOperation().emitRemark() << text;
  }

  RankLinks links;
  std::optional<RankLoad> load;
  std::shared_ptr<const CatalogueDevice> measured; ///< null: the device's figures
};

} // namespace
} // namespace intarsia::partition
