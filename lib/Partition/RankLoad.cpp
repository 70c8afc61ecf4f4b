//===- RankLoad.cpp - What a world of ranks has to do ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/RankLoad.h"

#include "intarsia/Analysis/FunctionCaches.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

llvm::Expected<intarsia::RankLoad> intarsia::parseRankLoad(StringRef text) {
  auto refuse = [&](const Twine &why) {
    return llvm::createStringError(
        "--rank-load=" + text + ": " + why +
        "; it is how many sequences there are at once, how many tokens the prompt of each has, and how many each is "
        "continued by: sequences:8,prompt:512,tokens:128, any of them");
  };
  RankLoad load;
  struct Part {
    StringRef name;
    int64_t *value;
    int64_t least;
    bool isGiven = false;
  };
  Part parts[] = {{"sequences", &load.sequences, 1}, {"prompt", &load.prompt, 1}, {"tokens", &load.tokens, 0}};
  for (StringRef item : llvm::split(text, ',')) {
    auto [name, number] = item.split(':');
    auto *part = llvm::find_if(parts, [&](const Part &each) { return each.name == name; });
    if (part == std::end(parts))
      return refuse("'" + name + "' is not known");
    if (part->isGiven)
      return refuse(name + " is given twice");
    part->isGiven = true;
    constexpr int64_t most = int64_t(1) << 31; // products of two of them are numbers of 64 bits
    if (number.getAsInteger(10, *part->value) || *part->value < part->least || *part->value > most)
      return refuse("'" + number + "' is no number of " + (part->name == "prompt" ? "tokens of a prompt" : part->name));
  }
  load.hasLength = parts[1].isGiven || parts[2].isGiven;
  if (load.tokens == 0 && load.prompt == 0)
    return refuse("tokens:0 leaves nothing to do without a prompt");
  return load;
}

namespace intarsia::partition {

CallSizes sizesOfStep(const RankLoad &load, int64_t sequences) {
  // The cache of a sequence grows while it is continued: half of that on average.
  int64_t tokens = llvm::divideCeil(std::max<int64_t>(load.tokens, 1), 2);
  return {sequences, sequences, sequences, load.prompt + tokens};
}

CallSizes sizesOfPromptPart(const RankLoad &load, int64_t tokens) {
  // A call has tokens of as many sequences as it needs. The cost model lets each token of a call attend to all tokens
  // that are there at its end: from one part of the prompt to the whole of it.
  int64_t ofEach = std::min(tokens, load.prompt), sequences = llvm::divideCeil(tokens, ofEach);
  return {tokens, sequences, 1, (load.prompt + ofEach + 1) / 2};
}

bool hasState(func::FuncOp function) {
  return llvm::any_of(llvm::seq(function.getNumArguments()),
                      [&](unsigned number) { return bool(function.getArgAttr(number, "nn.state")); });
}

/// The name of a dimension of an argument; empty if it has none.
static StringRef sizeName(func::FuncOp function, unsigned argument, unsigned dimension) {
  auto names = function.getArgAttrOfType<ArrayAttr>(argument, "nn.sizes");
  if (!names || dimension >= names.size())
    return "";
  return cast<StringAttr>(names[dimension]).getValue();
}

static void setExpected(func::FuncOp function, ArrayRef<std::pair<StringRef, int64_t>> sizes) {
  Builder builder(function);
  NamedAttrList expected;
  if (auto given = function->getAttrOfType<DictionaryAttr>("nn.expected_sizes"))
    expected = NamedAttrList(given);
  for (auto [name, value] : sizes)
    if (!name.empty())
      expected.set(name, builder.getI64IntegerAttr(std::max<int64_t>(value, 1)));
  if (!expected.empty())
    function->setAttr("nn.expected_sizes", expected.getDictionary(function.getContext()));
}

void expectSizes(func::FuncOp function, const CallSizes &sizes) {
  int64_t page = 1;
  if (FailureOr<SmallVector<FunctionCache>> caches = findCaches(function); succeeded(caches))
    for (const FunctionCache &cache : *caches)
      page = std::max<int64_t>(page, cache.format.getPage());
  int64_t pages = llvm::divideCeil(sizes.length, page);
  SmallVector<std::pair<StringRef, int64_t>> expected;
  for (unsigned number = 0; number < function.getNumArguments(); ++number) {
    auto name = function.getArgAttrOfType<StringAttr>(number, "nn.name");
    if (function.getArgAttr(number, "nn.state")) {
      // A tensor has the pages of all sequences, or something of each.
      StringRef size = sizeName(function, number, 0);
      bool isOfSequences = llvm::is_contained(llvm::make_first_range(expected), size);
      if (!isOfSequences)
        expected.emplace_back(size, pages * sizes.sequences);
    } else if (name && name.getValue() == "positions") {
      expected.emplace_back(sizeName(function, number, 0), sizes.tokens);
    } else if (name && name.getValue() == "page_table") {
      expected.emplace_back(sizeName(function, number, 0), sizes.sequences);
      expected.emplace_back(sizeName(function, number, 1), pages);
    } else if (name && name.getValue() == "output_tokens") {
      expected.emplace_back(sizeName(function, number, 0), sizes.outputs);
    }
  }
  setExpected(function, expected);
}

void expectExamples(func::FuncOp function, const RankLoad &load) {
  SmallVector<std::pair<StringRef, int64_t>> expected;
  for (auto [number, argument] : llvm::enumerate(function.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    for (int64_t dimension = 0; type && dimension < type.getRank(); ++dimension)
      if (StringRef name = sizeName(function, number, dimension); dimension == 0)
        expected.emplace_back(name, load.sequences);
      else if (name == "sequence" && load.prompt > 0)
        expected.emplace_back(name, load.prompt);
  }
  setExpected(function, expected);
}

int64_t mostTokens(func::FuncOp function) {
  for (unsigned number = 0; number < function.getNumArguments(); ++number)
    if (auto name = function.getArgAttrOfType<StringAttr>(number, "nn.name"); name && name.getValue() == "positions")
      if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range"))
        return range[1];
  if (auto limits = function->getAttrOfType<DictionaryAttr>("nn.size_limits"))
    if (auto limit = limits.getAs<IntegerAttr>("sequence"))
      return limit.getInt();
  return 0;
}

} // namespace intarsia::partition
