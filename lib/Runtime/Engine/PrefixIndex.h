//===- PrefixIndex.h - Texts whose beginnings prompts may share ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_PREFIXINDEX_H
#define INTARSIA_RUNTIME_ENGINE_PREFIXINDEX_H

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace intarsia::runtime {

/// The tokens of sequences in a tree whose edges are runs of tokens (a radix tree), one tree for each salt. It finds
/// the sequences that have the longest beginning in common with a prompt.
class PrefixIndex {
public:
  /// A sequence, by a number that the caller gives; each at most once.
  using Entry = int32_t;
  using Tokens = std::span<const int64_t>;

  PrefixIndex();
  ~PrefixIndex();

  void add(Entry entry, const std::string &salt, Tokens tokens);
  void remove(Entry entry);
  bool contains(Entry entry) const { return places_.count(entry) != 0; }
  size_t size() const { return places_.size(); }

  /// Sequences that have the first `common` tokens of a prompt.
  struct Match {
    int64_t common = 0;
    const std::vector<Entry> *entries = nullptr;
  };
  /// Gives matches from the longest common beginning to shorter ones, none of them empty. They are valid until the next
  /// change.
  std::vector<Match> find(const std::string &salt, Tokens tokens) const;

  /// Returns the entries whose tokens are a beginning of these, or all of them.
  std::vector<Entry> beginnings(const std::string &salt, Tokens tokens) const;
  /// Returns an entry that begins with all of these tokens, but `other`; -1 if there is none.
  Entry extension(const std::string &salt, Tokens tokens, Entry other) const;

private:
  struct Node;
  struct Place {
    std::string salt;
    Node *node;
  };
  void split(Node &node, size_t length);

  std::unordered_map<std::string, std::unique_ptr<Node>> roots_;
  std::unordered_map<Entry, Place> places_;
};

} // namespace intarsia::runtime

#endif
