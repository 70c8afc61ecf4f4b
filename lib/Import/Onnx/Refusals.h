//===- Refusals.h - Nodes that are not imported -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_REFUSALS_H
#define INTARSIA_IMPORT_ONNX_REFUSALS_H

#include "lib/Formats/Onnx/OnnxModel.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include <string>
#include <vector>

namespace intarsia::onnx {

/// Collects all that a model has and the importer does not take.
class Refusals {
public:
  /// Nodes of one op that are refused for one reason.
  struct Refusal {
    std::string op, domain;
    int64_t version;
    std::string reason, firstNode;
    unsigned count = 0;
  };

  void add(const Node &node, int64_t version, const llvm::Twine &reason);
  bool any() const { return !all.empty(); }
  const std::vector<Refusal> &list() const { return all; }
  /// Returns how many nodes are refused.
  size_t count() const { return nodes.size(); }
  /// Forgets those that were added after so many.
  void forgetSince(size_t count);
  /// Returns a line for each of the first hundred, those of one line as that line.
  std::string text() const;

private:
  std::vector<Refusal> all;
  std::vector<uint32_t> nodes;     ///< the number of the refusal of each node, in the order in which they were added
  llvm::StringMap<size_t> numbers; ///< of refusals in the list, by all of them but the node and the count
};

/// Returns the name of a node for messages: its own, or that of its first result.
std::string nameOf(const Node &node);

} // namespace intarsia::onnx

#endif
