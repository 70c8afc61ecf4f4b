//===- StaticInputs.cpp - Inputs of linears with scales that a text has shown ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/StaticInputs.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using llvm::createStringError;
using llvm::StringRef;
using llvm::Twine;

namespace intarsia {

std::string StaticInput::option() const {
  auto bits = llvm::map_range(factors, [](float factor) { return llvm::utohexstr(llvm::bit_cast<uint32_t>(factor)); });
  return llvm::join(bits, "-") + "/" + llvm::join(weights, "+");
}

llvm::Error StaticInput::check() const {
  if (weights.empty())
    return createStringError("an input with scales of a text names no weights");
  for (size_t feature = 0; feature < factors.size(); ++feature)
    if (!std::isnormal(factors[feature]) || factors[feature] < 0 || !std::isnormal(1 / factors[feature]))
      return createStringError("the input of '" + weights.front() + "' has the factor " +
                               std::to_string(factors[feature]) + " for feature " + Twine(feature) +
                               ", it must be above zero and finite: quantize the model again with `intarsia quantize "
                               "--quantize-activations=8-static`");
  return llvm::Error::success();
}

static llvm::Expected<StaticInput> parseStaticInput(StringRef text) {
  auto wrong = [&] {
    return createStringError("'" + text.take_front(60) +
                             "' is no input with scales of a text: BITS-BITS-…/KEY+KEY is one");
  };
  StaticInput input;
  auto [factors, keys] = text.split('/');
  if (factors.empty() || keys.empty())
    return wrong();
  for (StringRef number : llvm::split(factors, '-')) {
    uint32_t bits;
    if (number.getAsInteger(16, bits))
      return wrong();
    input.factors.push_back(llvm::bit_cast<float>(bits));
  }
  for (StringRef key : llvm::split(keys, '+'))
    input.weights.push_back(key.str());
  if (llvm::Error error = input.check())
    return std::move(error);
  return input;
}

llvm::Expected<std::vector<StaticInput>> parseStaticInputs(llvm::ArrayRef<std::string> texts) {
  std::vector<StaticInput> inputs;
  llvm::StringSet<> keys;
  for (StringRef text : texts) {
    llvm::Expected<StaticInput> input = parseStaticInput(text);
    if (!input)
      return input.takeError();
    for (StringRef key : input->weights)
      if (!keys.insert(key).second)
        return createStringError("the weight '" + key + "' has two inputs with scales of a text");
    inputs.push_back(std::move(*input));
  }
  return inputs;
}

} // namespace intarsia
