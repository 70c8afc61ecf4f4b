//===- MixedInputs.cpp - Inputs of linears in blocks of 8 and of 4 bits -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/MixedInputs.h"

#include "dialects/Nn/MixedBlocks.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using llvm::createStringError;
using llvm::StringRef;
using llvm::Twine;

namespace intarsia {

std::string MixedInput::option() const {
  auto numbers = llvm::map_range(channels, [](int32_t channel) { return std::to_string(channel); });
  return std::to_string(wideBlocks) + "/" + llvm::join(numbers, "-") + "/" + llvm::join(weights, "+");
}

llvm::Error MixedInput::check() const {
  if (weights.empty())
    return createStringError("an input in blocks of 8 and of 4 bits names no weights");
  auto wrong = [&](const Twine &what) {
    return createStringError("the input of '" + weights.front() + "' " + what +
                             ": quantize the model again with `intarsia quantize --quantize-activations=fmpq`");
  };
  std::vector<bool> seen(channels.size());
  for (int32_t channel : channels) {
    if (channel < 0 || size_t(channel) >= channels.size())
      return wrong("has the channel " + Twine(channel) + " among " + Twine(channels.size()));
    if (seen[size_t(channel)])
      return wrong("has the channel " + Twine(channel) + " twice");
    seen[size_t(channel)] = true;
  }
  auto blocks = int64_t(llvm::divideCeil(channels.size(), uint64_t(nn::mixedBlock)));
  if (wideBlocks < 0 || wideBlocks > blocks)
    return wrong("has " + Twine(wideBlocks) + " blocks of 8 bits, and " + Twine(blocks) + " blocks of " +
                 Twine(nn::mixedBlock) + " features");
  return llvm::Error::success();
}

static llvm::Expected<MixedInput> parseMixedInput(StringRef text) {
  auto wrong = [&] {
    return createStringError("'" + text.take_front(60) +
                             "' is no input in blocks of 8 and of 4 bits: WIDE/CHANNEL-CHANNEL-…/KEY+KEY is one");
  };
  MixedInput input;
  auto [wide, rest] = text.split('/');
  auto [channels, keys] = rest.split('/');
  if (wide.getAsInteger(10, input.wideBlocks) || channels.empty() || keys.empty())
    return wrong();
  for (StringRef number : llvm::split(channels, '-')) {
    int32_t channel;
    if (number.getAsInteger(10, channel))
      return wrong();
    input.channels.push_back(channel);
  }
  for (StringRef key : llvm::split(keys, '+'))
    input.weights.push_back(key.str());
  if (llvm::Error error = input.check())
    return std::move(error);
  return input;
}

llvm::Expected<std::vector<MixedInput>> parseMixedInputs(llvm::ArrayRef<std::string> texts) {
  std::vector<MixedInput> inputs;
  llvm::StringSet<> keys;
  for (StringRef text : texts) {
    llvm::Expected<MixedInput> input = parseMixedInput(text);
    if (!input)
      return input.takeError();
    for (StringRef key : input->weights)
      if (!keys.insert(key).second)
        return createStringError("the weight '" + key + "' has two inputs in blocks of 8 and of 4 bits");
    inputs.push_back(std::move(*input));
  }
  return inputs;
}

} // namespace intarsia
