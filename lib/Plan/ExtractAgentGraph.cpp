//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// From a decomposed agent.graph to the plain data of intarsia/Plan/AgentGraph.h.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"
#include "intarsia/Plan/AgentGraph.h"
#include "intarsia/Plan/Plan.h"
#include "lib/Plan/Sizes.h"
#include "lib/Plan/ValueSources.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;
using namespace intarsia::plan;
namespace wf = intarsia::workflow;

namespace {
//===-- Small translations ------------------------------------------------------------------------------------===//

/// Returns the position in the user's file: the innermost file position, with names of nodes and callers.
std::string textOf(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" + Twine(file.getColumn())).str();
  if (auto name = dyn_cast<NameLoc>(location)) {
    std::string child = textOf(name.getChildLoc());
    return name.getName().str() + (child.empty() ? "" : " at " + child);
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return textOf(call.getCallee()) + ", called from " + textOf(call.getCaller());
  if (auto fused = dyn_cast<FusedLoc>(location); fused && !fused.getLocations().empty())
    return textOf(fused.getLocations().front());
  return "";
}

wf::Unit unitIn(Type type) {
  switch (unitOf(type)) {
  case Unit::Pixels:
    return wf::Unit::Pixels;
  case Unit::Seconds:
    return wf::Unit::Seconds;
  case Unit::Bytes:
    return wf::Unit::Bytes;
  case Unit::Vectors:
    return wf::Unit::Vectors;
  default:
    return wf::Unit::Tokens;
  }
}

wf::Flow flowOf(Type type) {
  return llvm::TypeSwitch<Type, wf::Flow>(type)
      .Case<ImageType>([](auto) { return wf::Flow::Image; })
      .Case<AudioType>([](auto) { return wf::Flow::Audio; })
      .Case<VideoType>([](auto) { return wf::Flow::Video; })
      .Case<DataType>([](auto) { return wf::Flow::Data; })
      .Case<agent::VectorType>([](auto) { return wf::Flow::Vector; })
      .Case<FeaturesType>([](auto) { return wf::Flow::Features; })
      .Case<CacheType>([](auto) { return wf::Flow::Cache; })
      .Default(wf::Flow::Text);
}

std::optional<double> valueOf(FloatAttr figure) {
  return figure ? std::optional(figure.getValueAsDouble()) : std::nullopt;
}

std::optional<int64_t> valueOf(std::optional<uint64_t> number) {
  return number ? std::optional<int64_t>(static_cast<int64_t>(*number)) : std::nullopt;
}

Amount amountOf(Spread spread) { return Amount::lognormal(spread.mean, spread.variance); }

wf::Prompt promptOf(const PromptWork &work) {
  return {amountOf(work.newTokens), amountOf(work.cachedTokens), amountOf(work.generatedTokens)};
}

//===-- Extraction --------------------------------------------------------------------------------------------===//

class Extractor {
public:
  Extractor(GraphOp graph, SymbolTableCollection &tables, const ExpectedSizes &sizes)
      : graph(graph), tables(tables), sizes(sizes) {}

  FailureOr<wf::Graph> extract() {
    result.name = graph.getSymName().str();
    result.location = textOf(graph.getLoc());
    if (SlaAttr sla = graph.getSlaAttr()) {
      if (sla.getPercent())
        result.sla.percentile = sla.getPercent().getValueAsDouble() / 100;
      result.sla.latencyMs = valueOf(sla.getLatencyMs()).value_or(wf::unlimited);
      result.sla.ttftMs = valueOf(sla.getTtftMs()).value_or(wf::unlimited);
      result.sla.tbtMs = valueOf(sla.getTbtMs()).value_or(wf::unlimited);
      result.sla.requestsPerSecond = valueOf(sla.getRequestsPerSecond()).value_or(0);
    }
    WalkResult walked = graph.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<LlmOp, RetrieveOp, CallOp>(op)) {
        op->emitError() << "'" << op->getName() << "' is no piece that could be placed; run plan-decompose before";
        return WalkResult::interrupt();
      }
      if (isa<TaskOpInterface>(op)) {
        taskOf[op] = result.tasks.size();
        result.tasks.emplace_back();
      }
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    for (auto [op, index] : taskOf)
      fillTask(op, result.tasks[index]);
    result.root = addBlock(graph.getBody().front(), -1, "", graph.getLoc());
    for (auto [index, region] : llvm::enumerate(result.regions)) {
      for (auto [position, child] : llvm::enumerate(region.children))
        positionOf[child] = position;
      for (auto [position, arc] : llvm::enumerate(region.arcs))
        arcOf[{int(index), arc.from, arc.to}] = position;
    }
    addEdges();
    for (const wf::Region &dag : result.regions)
      for (auto [position, child] : llvm::enumerate(dag.children)) {
        const wf::Region &inner = result.regions[child];
        if (inner.task >= 0 && result.tasks[inner.task].kind == wf::Kind::Write)
          result.tasks[inner.task].background = llvm::none_of(
              dag.arcs, [&](const wf::Region::Arc &arc) { return arc.from == static_cast<int>(position); });
      }
    return std::move(result);
  }

private:
  GraphOp graph;
  SymbolTableCollection &tables;
  const ExpectedSizes &sizes;
  wf::Graph result;
  llvm::MapVector<Operation *, int> taskOf;
  llvm::DenseMap<Operation *, int> regionOf;      ///< of tasks and of branches, loops, maps
  llvm::DenseMap<int, int> positionOf;            ///< by region: among its parent's children
  std::map<std::tuple<int, int, int>, int> arcOf; ///< by dag and both ends: position among its arcs
  llvm::DenseMap<Operation *, int> symbols;
  llvm::StringMap<int> names;

  /// Returns the index of the named symbol's entry in `list`; the first use adds the entry.
  template <typename Op, typename Entry, typename Fill>
  int named(Operation *user, FlatSymbolRefAttr symbol, std::vector<Entry> &list, Fill fill) {
    auto op = tables.lookupNearestSymbolFrom<Op>(user, symbol);
    auto [entry, inserted] = symbols.try_emplace(op, list.size());
    if (inserted) {
      list.emplace_back();
      list.back().name = op.getSymName().str();
      fill(op, list.back());
    }
    return entry->second;
  }

  int modelOf(Operation *user, FlatSymbolRefAttr symbol) {
    return named<ModelOp>(user, symbol, result.models, [](ModelOp op, wf::Model &model) {
      model.shape = op.getShape().value_or("").str();
      model.module = op.getModule().value_or("").str();
      model.parameters = valueOf(op.getParametersAttr());
      model.flopsPerUnit = valueOf(op.getFlopsPerUnitAttr());
      model.flopsPerOutput = valueOf(op.getFlopsPerOutputAttr());
      model.tokensPerUnit = valueOf(op.getTokensPerUnitAttr());
      model.kvBytesPerToken = valueOf(op.getKvBytesPerTokenAttr());
      model.cache = op.getCache().value_or("").str();
      model.contextTokens = valueOf(op.getContextTokens());
      if (op.getPrecisionsAttr())
        for (StringRef precision : op.getPrecisionsAttr().getAsValueRange<StringAttr>())
          model.precisions.push_back(precision.str());
    });
  }

  int indexOf(Operation *user, FlatSymbolRefAttr symbol) {
    return named<IndexOp>(user, symbol, result.indexes, [](IndexOp op, wf::Index &index) {
      index.vectors = op.getVectors();
      index.dimension = op.getDimension();
      index.bytesPerVector = op.getBytesPerVector().value_or(4 * op.getDimension());
      index.visited = valueOf(op.getVisitedAttr()).value_or(1);
      if (op.getLatency())
        index.latencyMs = op.getLatency()->getAmount();
    });
  }

  int toolOf(Operation *user, FlatSymbolRefAttr symbol) {
    return named<ToolOp>(user, symbol, result.tools, [](ToolOp op, wf::Tool &tool) {
      tool.endpoint = op.getEndpoint().value_or("").str();
      tool.latencyMs = op.getLatency().getAmount();
      tool.dollarsPerCall = valueOf(op.getDollarsPerCallAttr()).value_or(0);
      tool.concurrency = valueOf(op.getConcurrency());
      tool.failureProbability = valueOf(op.getFailureProbabilityAttr()).value_or(0);
    });
  }

  int memoryOf(Operation *user, FlatSymbolRefAttr symbol) {
    return named<MemoryOp>(user, symbol, result.memories, [](MemoryOp op, wf::Memory &memory) {
      memory.readMs = op.getReadLatency().getAmount();
      memory.writeMs = op.getWriteLatency().getAmount();
      memory.concurrency = valueOf(op.getConcurrency());
    });
  }

  std::string uniqueName(std::string name) {
    int count = names[name]++;
    return count == 0 ? name : uniqueName(name + "#" + std::to_string(count + 1));
  }

  /// Fills in a task by its kind; its name is the label and the piece, or the op with the name it uses.
  void fillTask(Operation *op, wf::Task &task) {
    std::string piece, subject;
    llvm::TypeSwitch<Operation *>(op)
        .Case<PrefillOp>([&](PrefillOp prefill) {
          task.kind = wf::Kind::Prefill;
          piece = ".prefill";
          task.model = modelOf(op, prefill.getModelAttr());
          task.prompt = promptOf(sizes.ofPrompt(op));
          for (const PromptWork &work : sizes.byRun(op))
            task.promptByRun.push_back(promptOf(work));
        })
        .Case<DecodeOp>([&](DecodeOp decode) {
          task.kind = wf::Kind::Decode;
          piece = ".decode";
          task.model = modelOf(op, decode.getModelAttr());
          task.contextTokens = sizes.of(decode.getCache());
          for (const ValueSource &source : sourcesOf(decode.getCache()))
            if (isa_and_present<PrefillOp>(source.task))
              pair(op, source.task);
        })
        .Case<EncodeOp>([&](EncodeOp encode) {
          task.kind = wf::Kind::Encode;
          piece = ".encode";
          task.model = modelOf(op, encode.getModelAttr());
        })
        .Case<EmbedOp>([&](EmbedOp embed) {
          task.kind = wf::Kind::Embed;
          piece = ".embed";
          task.model = modelOf(op, embed.getModelAttr());
        })
        .Case<SearchOp>([&](SearchOp search) {
          task.kind = wf::Kind::Search;
          piece = ".search";
          task.index = indexOf(op, search.getIndexAttr());
          task.topK = search.getTopK();
          task.latencyMs = result.indexes[task.index].latencyMs;
          if (auto embed = search.getQuery().getDefiningOp<EmbedOp>())
            pair(op, embed);
        })
        .Case<InferOp>([&](InferOp infer) {
          task.kind = wf::Kind::Infer;
          task.model = modelOf(op, infer.getModelAttr());
          subject = infer.getModel().str();
        })
        .Case<InvokeOp>([&](InvokeOp invoke) {
          task.kind = wf::Kind::Invoke;
          task.tool = toolOf(op, invoke.getToolAttr());
          task.latencyMs = result.tools[task.tool].latencyMs;
          subject = invoke.getTool().str();
        })
        .Case<ComputeOp>([&](ComputeOp compute) {
          task.kind = wf::Kind::Compute;
          task.function = compute.getFunction().str();
          task.latencyMs = compute.getLatency().getAmount();
          subject = task.function;
        })
        .Case<ReadOp>([&](ReadOp read) {
          task.kind = wf::Kind::Read;
          task.memory = memoryOf(op, read.getMemoryAttr());
          task.latencyMs = result.memories[task.memory].readMs;
          subject = read.getMemory().str();
          piece = ".read";
        })
        .Case<WriteOp>([&](WriteOp write) {
          task.kind = wf::Kind::Write;
          task.memory = memoryOf(op, write.getMemoryAttr());
          task.latencyMs = result.memories[task.memory].writeMs;
          subject = write.getMemory().str();
          piece = ".write";
        });
    auto common = cast<TaskOpInterface>(op);
    if (task.model >= 0 && subject.empty())
      subject = result.models[task.model].name;
    if (task.index >= 0)
      subject = result.indexes[task.index].name;
    task.name = uniqueName((common.getLabel() ? common.getLabel()->str() : subject) + piece);
    task.location = textOf(op->getLoc());
    for (Value input : op->getOperands())
      task.inputs.push_back({unitIn(input.getType()), sizes.of(input)});
    if (op->getNumResults() > 0)
      task.output = {unitIn(op->getResult(0).getType()), sizes.of(op->getResult(0))};
    Executions executions = executionsOf(op);
    task.executions = executions.expected;
    task.probability = executions.probability;
    task.together = common.getTogether().value_or("").str();
    task.apart = common.getApart().value_or("").str();
    if (fleet::PlacementAttr place = common.getPlaceAttr()) {
      bool nested = !place.getPool().getNestedReferences().empty();
      wf::FixedPlacement fixed;
      fixed.system = nested ? place.getPool().getRootReference().str() : "";
      fixed.pool = place.getPool().getLeafReference().str();
      fixed.tensor = place.getTensor();
      fixed.pipeline = place.getPipeline();
      fixed.expert = place.getExpert();
      fixed.data = place.getData();
      fixed.parts = place.getParts();
      fixed.replicas = place.getReplicas();
      fixed.batch = place.getBatch();
      fixed.precision = place.getPrecision() ? place.getPrecision().str() : "";
      fixed.aggregated = place.getAggregated();
      fixed.pinsPoolOnly = place.isPoolOnly();
      task.placement = fixed;
    }
  }

  void pair(Operation *a, Operation *b) {
    result.tasks[taskOf[a]].pair = taskOf[b];
    result.tasks[taskOf[b]].pair = taskOf[a];
  }

  //===-- Regions ---------------------------------------------------------------------------------------------===//

  int addRegion(wf::Region::Kind kind, int parent, Location location) {
    result.regions.emplace_back();
    wf::Region &region = result.regions.back();
    region.kind = kind;
    region.parent = parent;
    region.location = textOf(location);
    return result.regions.size() - 1;
  }

  int addBlock(Block &block, int parent, StringRef name, Location location) {
    int dag = addRegion(wf::Region::Kind::Dag, parent, location);
    result.regions[dag].name = name.str();
    SmallVector<Operation *> items;
    for (Operation &op : block)
      if (isa<TaskOpInterface, BranchOp, LoopOp, MapOp>(op)) {
        items.push_back(&op);
        int child = addItem(&op, dag);
        result.regions[dag].children.push_back(child);
      }
    // Dependences, including those without data: a branch waits for its decision, a read for a write.
    Waiting waiting(block);
    for (auto [to, item] : llvm::enumerate(items))
      for (auto [from, streaming] : waiting.next(item))
        result.regions[dag].arcs.push_back({from, static_cast<int>(to), {}, streaming});
    return dag;
  }

  int addItem(Operation *op, int parent) {
    if (isa<TaskOpInterface>(op)) {
      int region = addRegion(wf::Region::Kind::Task, parent, op->getLoc());
      result.regions[region].task = taskOf[op];
      return regionOf[op] = region;
    }
    if (auto branch = dyn_cast<BranchOp>(op)) {
      int region = addRegion(wf::Region::Kind::Branch, parent, op->getLoc());
      regionOf[op] = region;
      result.regions[region].name = branch.getDecide().value_or("").str();
      result.regions[region].probabilities.assign(branch.getProbabilities().begin(), branch.getProbabilities().end());
      for (auto [body, name] : llvm::zip_equal(branch.getCases(), branch.getNames().getAsValueRange<StringAttr>())) {
        int child = addBlock(body.front(), region, name, op->getLoc());
        result.regions[region].children.push_back(child);
      }
      return region;
    }
    auto loop = dyn_cast<LoopOp>(op);
    int region = addRegion(loop ? wf::Region::Kind::Loop : wf::Region::Kind::Map, parent, op->getLoc());
    regionOf[op] = region;
    if (loop) {
      result.regions[region].name = loop.getUntil().value_or("").str();
      result.regions[region].keepsPrefix = loop.getKeepsPrefix();
      for (auto [index, probability] : llvm::enumerate(runProbabilitiesOf(loop)))
        if (probability > 0)
          result.regions[region].counts.emplace_back(index + 1, probability);
    } else {
      auto map = cast<MapOp>(op);
      result.regions[region].concurrency = valueOf(map.getConcurrency());
      result.regions[region].counts = widths(map.getWidth().getAmount());
    }
    int child = addBlock(op->getRegion(0).front(), region, "", op->getLoc());
    result.regions[region].children.push_back(child);
    return region;
  }

  static std::vector<std::pair<int64_t, double>> widths(const Amount &width) {
    std::map<int64_t, double> counts;
    constexpr int steps = 512;
    if (width.isConstant())
      counts[std::max<int64_t>(1, std::llround(width.mean()))] = 1;
    else
      for (int step = 0; step < steps; ++step)
        counts[std::max<int64_t>(1, std::llround(width.quantile((step + 0.5) / steps)))] += 1.0 / steps;
    return {counts.begin(), counts.end()};
  }

  /// What each item of a block waits for; they are asked for in their order.
  class Waiting {
  public:
    explicit Waiting(Block &block) : block(block) {}

    /// Returns the positions of the items that an item waits for, and whether it waits for the first part of a stream
    /// of them only.
    std::map<int, bool> next(Operation *item) {
      std::map<int, bool> found;
      auto add = [&](int from, bool streaming) {
        auto [known, inserted] = found.try_emplace(from, streaming);
        known->second &= streaming;
      };
      // A text that is joined of all texts before it has as many ways to each of them as there are joins of joins.
      std::set<std::pair<void *, bool>> seen;
      auto visit = [&](Value value, bool streamed, auto &&self) -> void {
        Operation *producer = value.getDefiningOp();
        if (!producer || producer->getBlock() != &block || !seen.insert({value.getAsOpaquePointer(), streamed}).second)
          return;
        if (auto known = positions.find(producer); known != positions.end())
          add(known->second, streamed && isa<TaskOpInterface>(producer));
        else if (isa<StreamOp, JoinOp, TransferOp, KvTransferOp>(producer))
          for (Value operand : producer->getOperands())
            self(operand, streamed || isa<StreamOp>(producer), self);
      };
      llvm::SetVector<Attribute> reads, writes;
      // Joins outside of a region that feed it are reached through the operands of what is inside.
      item->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          visit(operand, false, visit);
        if (auto read = dyn_cast<ReadOp>(inner))
          reads.insert(read.getMemoryAttr());
        if (auto write = dyn_cast<WriteOp>(inner))
          writes.insert(write.getMemoryAttr());
      });
      for (Attribute memory : reads)
        for (int from : writersOf[memory])
          add(from, false);
      int position = positions.size();
      positions[item] = position;
      for (Attribute memory : writes)
        writersOf[memory].push_back(position);
      return found;
    }

  private:
    Block &block;
    llvm::DenseMap<Operation *, int> positions;
    llvm::DenseMap<Attribute, SmallVector<int>> writersOf; ///< by memory
  };

  //===-- Edges -----------------------------------------------------------------------------------------------===//

  std::optional<double> bytesOf(wf::Flow flow, double mean, Operation *producer) {
    switch (flow) {
    case wf::Flow::Text:
      return 4 * mean;
    case wf::Flow::Image:
      return 3 * mean;
    case wf::Flow::Audio:
      return 32'000 * mean;
    case wf::Flow::Video:
      return 500'000 * mean;
    case wf::Flow::Data:
      return mean;
    case wf::Flow::Vector: {
      // The index of the search that reads the vector knows the dimension.
      if (producer)
        if (int search = result.tasks[taskOf[producer]].pair; search >= 0)
          return 4.0 * result.indexes[result.tasks[search].index].dimension * mean;
      return std::nullopt;
    }
    case wf::Flow::Features:
      return std::nullopt;
    case wf::Flow::Cache:
      if (producer)
        if (auto perToken = result.models[result.tasks[taskOf[producer]].model].kvBytesPerToken)
          return *perToken * mean;
      return std::nullopt;
    }
    llvm_unreachable("each flow is listed");
  }

  void addEdges() {
    for (auto [op, index] : taskOf)
      addEdgesTo(op, op->getOperands(), index);
    Operation *end = graph.getBody().front().getTerminator();
    addEdgesTo(end, end->getOperands(), -1);
    for (const wf::Edge &edge : result.edges)
      if (edge.to < 0 && edge.from >= 0 && result.tasks[edge.from].kind == wf::Kind::Decode)
        result.tasks[edge.from].answers = true;
  }

  void addEdgesTo(Operation *consumer, ValueRange operands, int to) {
    std::set<decltype(ValueSource().key())> seen;
    for (Value operand : operands) {
      for (ValueSource source : sourcesOf(operand)) {
        // Data from before the loop enters with the loop's inputs; back edges carry only what the loop itself makes.
        if (source.loop && (!source.task || !source.loop->isProperAncestor(source.task)))
          continue;
        if (source.loop && !source.loop->isProperAncestor(consumer))
          source.loop = LoopOp();
        if (seen.insert(source.key()).second)
          addEdge(source, to);
      }
    }
  }

  void addEdge(const ValueSource &source, int to) {
    wf::Edge edge;
    edge.from = source.task ? taskOf[source.task] : -1;
    edge.to = to;
    edge.flow = flowOf(source.value.getType());
    edge.amount = {unitIn(source.value.getType()), sizes.of(source.value)};
    edge.bytes = bytesOf(edge.flow, edge.amount.amount.mean(), source.task);
    if (source.every) {
      edge.streaming = true;
      edge.every = wf::Quantity{edge.amount.unit, source.every.getAmount()};
    }
    LoopOp loop = source.loop;
    edge.loop = loop ? regionOf[loop] : -1;
    int number = result.edges.size();
    result.edges.push_back(edge);
    if (to < 0)
      return;
    int toRegion = regionOfTask(to);
    if (edge.loop >= 0)
      result.regions[edge.loop].backEdges.push_back(number);
    else if (edge.from < 0)
      result.regions[toRegion].entryEdges.push_back(number);
    else
      attach(number, regionOfTask(edge.from), toRegion);
  }

  int regionOfTask(int task) { return regionOf[(taskOf.begin() + task)->first]; }

  /// Adds an edge to the arc between the children of the smallest common region that contain its ends.
  void attach(int edge, int from, int to) {
    SmallVector<int> ancestors;
    for (int region = from; region >= 0; region = result.regions[region].parent)
      ancestors.push_back(region);
    int below = to, common = result.regions[to].parent;
    while (!llvm::is_contained(ancestors, common)) {
      below = common;
      common = result.regions[common].parent;
    }
    int other = from;
    while (result.regions[other].parent != common)
      other = result.regions[other].parent;
    wf::Region &dag = result.regions[common];
    int first = positionOf[other], second = positionOf[below];
    auto [known, inserted] = arcOf.try_emplace({common, first, second}, dag.arcs.size());
    // A loop also waits for the operands that a join outside passes to it: the same case.
    if (inserted)
      dag.arcs.push_back({first, second, {}, result.edges[edge].streaming && dag.kind == wf::Region::Kind::Dag});
    dag.arcs[known->second].edges.push_back(edge);
  }
};
} // namespace

FailureOr<wf::Graph> intarsia::extractAgentGraph(GraphOp graph, SymbolTableCollection &tables) {
  bool decomposed = true;
  graph.walk([&](CallOp call) {
    call.emitError() << "'agent.call' is no piece that could be placed; run plan-decompose before";
    decomposed = false;
  });
  if (!decomposed)
    return failure();
  FailureOr<ExpectedSizes> sizes = ExpectedSizes::compute(graph, tables);
  if (failed(sizes))
    return failure();
  return Extractor(graph, tables, *sizes).extract();
}
