//===- Refusals.cpp - Nodes that are not imported -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Refusals.h"

#include "llvm/ADT/ArrayRef.h"

namespace intarsia::onnx {

std::string nameOf(const Node &node) {
  if (!node.name.empty())
    return printable(node.name);
  for (std::string_view output : node.outputs)
    if (!output.empty())
      return printable(output);
  return "";
}

/// Returns a text that tells refusals apart whose nodes are not counted together.
static std::string keyOf(const Refusals::Refusal &refusal) {
  return refusal.domain + "\n" + refusal.op + "\n" + std::to_string(refusal.version) + "\n" + refusal.reason;
}

void Refusals::add(const Node &node, int64_t version, const llvm::Twine &reason) {
  Refusal refusal{printable(node.op), printable(node.domain), version, reason.str(), nameOf(node)};
  auto [known, isNew] = numbers.try_emplace(keyOf(refusal), all.size());
  nodes.push_back(known->second);
  if (isNew)
    all.push_back(std::move(refusal));
  ++all[known->second].count;
}

void Refusals::forgetSince(size_t count) {
  for (; nodes.size() > count; nodes.pop_back()) {
    if (--all[nodes.back()].count != 0)
      continue;
    // Of refusals that no node has any more, the last is the one that was added last.
    numbers.erase(keyOf(all.back()));
    all.pop_back();
  }
}

std::string Refusals::text() const {
  auto line = [](const Refusal &refusal) {
    std::string op = (refusal.domain.empty() ? "" : refusal.domain + ".") + refusal.op;
    std::string others = refusal.count == 1 ? "" : " and " + std::to_string(refusal.count - 1) + " more";
    return "node '" + refusal.firstNode + "'" + others + " (" + op + ", version " + std::to_string(refusal.version) +
           "): " + refusal.reason;
  };
  if (all.size() == 1)
    return line(all.front());
  constexpr size_t most = 100;
  std::string text = std::to_string(all.size()) + " kinds of nodes are not imported";
  for (const Refusal &refusal : llvm::ArrayRef(all).take_front(most))
    text += "\n  " + line(refusal);
  if (all.size() > most)
    text += "\n  and " + std::to_string(all.size() - most) + " more, which --list-ops lists";
  return text;
}

} // namespace intarsia::onnx
