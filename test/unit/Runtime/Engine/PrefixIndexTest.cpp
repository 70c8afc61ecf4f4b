//===- PrefixIndexTest.cpp - Texts whose beginnings prompts may share -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/PrefixIndex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace intarsia::runtime;
using Texts = std::map<PrefixIndex::Entry, std::vector<int64_t>>;

/// Compares what the tree finds with what looking at each text finds.
static void check(const PrefixIndex &index, const Texts &texts, const std::vector<int64_t> &prompt) {
  auto common = [&](const std::vector<int64_t> &text) {
    size_t most = std::min(text.size(), prompt.size());
    return size_t(std::mismatch(text.begin(), text.begin() + ptrdiff_t(most), prompt.begin()).first - text.begin());
  };
  std::vector<PrefixIndex::Match> matches = index.find("", prompt);
  for (size_t i = 0; i < matches.size(); ++i) {
    if (i > 0)
      EXPECT_LT(matches[i].common, matches[i - 1].common);
    std::vector<PrefixIndex::Entry> expected, found = *matches[i].entries;
    for (const auto &[entry, text] : texts)
      if (common(text) >= size_t(matches[i].common))
        expected.push_back(entry);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected);
  }
  size_t longest = 0;
  std::vector<PrefixIndex::Entry> beginnings, shorter = index.beginnings("", prompt);
  bool hasExtension = false;
  for (const auto &[entry, text] : texts) {
    longest = std::max(longest, common(text));
    if (common(text) == text.size())
      beginnings.push_back(entry);
    hasExtension |= common(text) == prompt.size() && !prompt.empty();
  }
  EXPECT_EQ(matches.empty() ? 0 : size_t(matches[0].common), longest);
  std::sort(shorter.begin(), shorter.end());
  EXPECT_EQ(shorter, beginnings);
  if (!prompt.empty()) {
    PrefixIndex::Entry extension = index.extension("", prompt, -1);
    ASSERT_EQ(extension >= 0, hasExtension);
    if (hasExtension)
      EXPECT_EQ(common(texts.at(extension)), prompt.size());
  }
}

TEST(PrefixIndex, FindsWhatLookingAtEachTextFinds) {
  std::mt19937 random(11);
  PrefixIndex index;
  Texts texts;
  auto text = [&] {
    std::vector<int64_t> tokens(random() % 9);
    for (int64_t &token : tokens)
      token = random() % 3;
    return tokens;
  };
  for (PrefixIndex::Entry entry = 0; entry < 400; ++entry) {
    if (texts.size() > 12 || (random() % 3 == 0 && !texts.empty())) {
      auto gone = std::next(texts.begin(), ptrdiff_t(random() % texts.size()));
      index.remove(gone->first);
      EXPECT_FALSE(index.contains(gone->first));
      texts.erase(gone);
    }
    texts[entry] = text();
    index.add(entry, "", texts[entry]);
    EXPECT_EQ(index.size(), texts.size());
    for (int i = 0; i < 6; ++i)
      check(index, texts, text());
    check(index, texts, texts[entry]);
  }
}

TEST(PrefixIndex, SaltsShareNothing) {
  PrefixIndex index;
  std::vector<int64_t> tokens = {1, 2, 3};
  index.add(1, "a", tokens);
  EXPECT_TRUE(index.find("b", tokens).empty());
  EXPECT_EQ(index.find("a", tokens).size(), 1u);
  index.remove(1);
  EXPECT_TRUE(index.find("a", tokens).empty());
}
