//===- OpCounts.cpp - The ops of an ONNX model --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

#include <map>
#include <set>
#include <tuple>

namespace intarsia::onnx {
namespace {

/// Counts the nodes of a model by their ops.
class OpCounter {
public:
  explicit OpCounter(const Model &model) {
    for (const Function &function : model.functions)
      functions.emplace(function.domain, function.name);
    count(model.graph.nodes, model.operatorSets);
    for (const Function &function : model.functions)
      count(function.nodes, function.operatorSets);
  }

  std::vector<importer::ImportReport::Op> ops;

private:
  using OperatorSets = std::vector<OperatorSet>;

  void count(const std::vector<Node> &nodes, const OperatorSets &sets) {
    for (const Node &node : nodes) {
      count(node, sets);
      for (const Attribute &attribute : node.attributes)
        for (const Graph &graph : attribute.graphs)
          count(graph.nodes, sets);
    }
  }

  void count(const Node &node, const OperatorSets &sets) {
    int64_t version = 0;
    for (const OperatorSet &set : sets)
      if (set.domain == node.domain)
        version = set.version;
    auto [known, isNew] = numbers.try_emplace({node.domain, node.op, version}, ops.size());
    if (!isNew) {
      ++ops[known->second].count;
      return;
    }
    importer::ImportReport::Op &op = ops.emplace_back();
    op.name = printable(node.op);
    op.domain = printable(node.domain);
    op.version = version;
    op.count = 1;
    op.firstNode = nameOf(node);
    if (functions.count({node.domain, node.op}))
      return;
    const OpRow *row = findOp(llvm::StringRef(node.domain.data(), node.domain.size()),
                              llvm::StringRef(node.op.data(), node.op.size()));
    if (!row)
      op.reason = "is not imported";
    else if (version < row->since)
      op.reason = "is imported from version " + std::to_string(row->since) + " on";
  }

  std::set<std::pair<std::string_view, std::string_view>> functions;
  std::map<std::tuple<std::string_view, std::string_view, int64_t>, size_t> numbers; ///< of ops in the list
};

} // namespace

void countOps(const Model &model, const Refusals &refusals, importer::ImportReport &report) {
  report.ops = OpCounter(model).ops;
  for (importer::ImportReport::Op &op : report.ops) {
    // What no version of the importer takes is refused everywhere, also where import did not come to it.
    if (!op.reason.empty()) {
      op.refused = op.count;
      continue;
    }
    for (const Refusals::Refusal &refusal : refusals.list()) {
      if (refusal.op != op.name || refusal.domain != op.domain || refusal.version != op.version)
        continue;
      op.reason += (op.reason.empty() ? "" : "; ") + refusal.reason;
      // Nodes of functions are refused for each call.
      op.refused = std::min<uint64_t>(op.count, op.refused + refusal.count);
    }
  }
}

} // namespace intarsia::onnx
