//===- Refusals.cpp - Nodes that are not imported -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Refusals.h"

namespace intarsia::onnx {

std::string nameOf(const Node &node) {
  if (!node.name.empty())
    return printable(node.name);
  for (std::string_view output : node.outputs)
    if (!output.empty())
      return printable(output);
  return "";
}

void Refusals::add(const Node &node, int64_t version, const llvm::Twine &reason) {
  std::string op = printable(node.op), domain = printable(node.domain), why = reason.str();
  std::string key = domain + "\n" + op + "\n" + std::to_string(version) + "\n" + why;
  auto [known, isNew] = numbers.try_emplace(key, all.size());
  if (isNew)
    all.push_back({op, domain, version, why, nameOf(node)});
  ++all[known->second].count;
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
  std::string text = std::to_string(all.size()) + " kinds of nodes are not imported";
  for (const Refusal &refusal : all)
    text += "\n  " + line(refusal);
  return text;
}

} // namespace intarsia::onnx
