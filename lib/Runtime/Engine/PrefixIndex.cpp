//===- PrefixIndex.cpp - Texts whose beginnings prompts may share -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/PrefixIndex.h"

#include <algorithm>

namespace intarsia::runtime {

struct PrefixIndex::Node {
  Node *parent = nullptr;
  std::vector<int64_t> run;                                    // tokens from the parent to here
  int64_t depth = 0;                                           // tokens from the root to here
  std::vector<Entry> entries;                                  // that have all of these tokens
  std::vector<Entry> ends;                                     // those of them that have no others
  std::unordered_map<int64_t, std::unique_ptr<Node>> children; // by the first token of their runs
};

PrefixIndex::PrefixIndex() = default;
PrefixIndex::~PrefixIndex() = default;

static int64_t commonLength(PrefixIndex::Tokens left, PrefixIndex::Tokens right) {
  size_t most = std::min(left.size(), right.size());
  return std::mismatch(left.begin(), left.begin() + ptrdiff_t(most), right.begin()).first - left.begin();
}

/// Makes a node of the first tokens of a node's run, between it and its parent.
void PrefixIndex::split(Node &node, size_t length) {
  Node &parent = *node.parent;
  std::unique_ptr<Node> &place = parent.children[node.run.front()];
  auto middle = std::make_unique<Node>();
  middle->parent = &parent;
  middle->run.assign(node.run.begin(), node.run.begin() + ptrdiff_t(length));
  middle->depth = parent.depth + int64_t(length);
  middle->entries = node.entries;
  std::unique_ptr<Node> lower = std::move(place);
  lower->run.erase(lower->run.begin(), lower->run.begin() + ptrdiff_t(length));
  lower->parent = middle.get();
  int64_t first = lower->run.front();
  middle->children.emplace(first, std::move(lower));
  place = std::move(middle);
}

void PrefixIndex::add(Entry entry, const std::string &salt, Tokens tokens) {
  std::unique_ptr<Node> &root = roots_[salt];
  if (!root)
    root = std::make_unique<Node>();
  Node *node = root.get();
  node->entries.push_back(entry);
  while (!tokens.empty()) {
    auto found = node->children.find(tokens.front());
    if (found == node->children.end()) {
      auto child = std::make_unique<Node>();
      child->parent = node;
      child->run.assign(tokens.begin(), tokens.end());
      child->depth = node->depth + int64_t(tokens.size());
      Node *made = child.get();
      node->children.emplace(tokens.front(), std::move(child));
      node = made;
      tokens = {};
    } else {
      Node *child = found->second.get();
      int64_t common = commonLength(child->run, tokens);
      if (common < int64_t(child->run.size())) {
        split(*child, size_t(common));
        child = child->parent;
      }
      node = child;
      tokens = tokens.subspan(size_t(common));
    }
    node->entries.push_back(entry);
  }
  node->ends.push_back(entry);
  places_[entry] = {salt, node};
}

void PrefixIndex::remove(Entry entry) {
  auto place = places_.find(entry);
  if (place == places_.end())
    return;
  std::erase(place->second.node->ends, entry);
  for (Node *node = place->second.node; node;) {
    std::erase(node->entries, entry);
    Node *parent = node->parent;
    if (node->entries.empty()) {
      if (parent)
        parent->children.erase(int64_t(node->run.front()));
      else
        roots_.erase(place->second.salt);
    } else if (parent && node->ends.empty() && node->children.size() == 1) {
      // What was split for the entry becomes one run again.
      std::unique_ptr<Node> child = std::move(node->children.begin()->second);
      child->run.insert(child->run.begin(), node->run.begin(), node->run.end());
      child->parent = parent;
      parent->children[child->run.front()] = std::move(child);
    }
    node = parent;
  }
  places_.erase(entry);
}

std::vector<PrefixIndex::Match> PrefixIndex::find(const std::string &salt, Tokens tokens) const {
  std::vector<Match> matches;
  auto root = roots_.find(salt);
  if (root == roots_.end())
    return matches;
  const Node *node = root->second.get();
  while (!tokens.empty()) {
    auto found = node->children.find(tokens.front());
    if (found == node->children.end())
      break;
    const Node *child = found->second.get();
    int64_t common = commonLength(child->run, tokens);
    matches.push_back({node->depth + common, &child->entries});
    if (common < int64_t(child->run.size()))
      break;
    node = child;
    tokens = tokens.subspan(size_t(common));
  }
  std::reverse(matches.begin(), matches.end());
  return matches;
}

std::vector<PrefixIndex::Entry> PrefixIndex::beginnings(const std::string &salt, Tokens tokens) const {
  std::vector<Entry> result;
  auto root = roots_.find(salt);
  const Node *node = root == roots_.end() ? nullptr : root->second.get();
  while (node) {
    result.insert(result.end(), node->ends.begin(), node->ends.end());
    auto found = tokens.empty() ? node->children.end() : node->children.find(tokens.front());
    if (found == node->children.end())
      break;
    node = found->second.get();
    if (commonLength(node->run, tokens) < int64_t(node->run.size()))
      break;
    tokens = tokens.subspan(node->run.size());
  }
  return result;
}

PrefixIndex::Entry PrefixIndex::extension(const std::string &salt, Tokens tokens, Entry other) const {
  for (const Match &match : find(salt, tokens))
    if (match.common == int64_t(tokens.size()))
      for (Entry entry : *match.entries)
        if (entry != other)
          return entry;
  return -1;
}

} // namespace intarsia::runtime
