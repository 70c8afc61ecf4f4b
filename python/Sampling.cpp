//===- Sampling.cpp - The choice of a token -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Sampling.h"

#include "lib/Runtime/Engine/Sampling.h"
#include "python/Tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace intarsia::python {
namespace {

using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using runtime::SamplingRules;

void check(const Status &status) {
  if (!status.ok())
    throw ItxError{status.code(), status.message()};
}

void refuse(const char *message) { throw ItxError{ITX_INVALID_ARGUMENT, message}; }

/// Refuses rules and texts that are not of a vocabulary, and returns its size.
int64_t checkRow(const SamplingRules &rules, const Floats &logits, const Ids &context, size_t generated) {
  auto vocabulary = int64_t(logits.shape(0));
  if (vocabulary == 0)
    refuse("there are no logits");
  if (generated > context.shape(0))
    refuse("more tokens are generated than the context has");
  check(rules.check(vocabulary));
  for (size_t i = 0; i < context.shape(0); ++i)
    if (context.data()[i] < 0 || context.data()[i] >= vocabulary)
      refuse("a token of the context is not in the vocabulary");
  return vocabulary;
}

/// Returns what penalties ask for: the last `generated` tokens were generated.
runtime::SeenTokens seenOf(const Ids &context, size_t generated) {
  runtime::SeenTokens seen;
  for (size_t i = 0; i < context.shape(0); ++i)
    seen.counts[context.data()[i]] += i >= context.shape(0) - generated;
  return seen;
}

std::vector<double> probabilities(const SamplingRules &rules, const Floats &logits, const Ids &context,
                                  size_t generated) {
  int64_t vocabulary = checkRow(rules, logits, context, generated);
  std::vector<double> result;
  check(rules.probabilities(logits.data(), vocabulary, seenOf(context, generated), nullptr, result));
  return result;
}

int64_t choose(const SamplingRules &rules, const Floats &logits, const Ids &context, double number, size_t generated) {
  int64_t vocabulary = checkRow(rules, logits, context, generated), token = 0;
  check(rules.choose(logits.data(), vocabulary, seenOf(context, generated), nullptr, number, token));
  return token;
}

std::optional<int64_t> chooseCandidate(const SamplingRules &rules, const Ids &tokens, const Floats &logits,
                                       double total, double error, int64_t vocabulary, double number) {
  if (tokens.shape(0) == 0 || tokens.shape(0) != logits.shape(0) || vocabulary < int64_t(tokens.shape(0)))
    refuse("the likeliest tokens are not as many as their logits, or more than the vocabulary has");
  runtime::Likeliest likeliest;
  for (size_t i = 0; i < tokens.shape(0); ++i)
    likeliest.tokens.push_back({logits.data()[i], tokens.data()[i]});
  likeliest.total = total;
  likeliest.error = error;
  likeliest.vocabulary = vocabulary;
  return rules.chooseCandidate(likeliest, number);
}

double logProbability(const Floats &logits, int64_t token) {
  if (token < 0 || token >= int64_t(logits.shape(0)))
    refuse("the token is not in the vocabulary");
  return runtime::LogProbabilities(logits.data(), int64_t(logits.shape(0))).of(token);
}

int64_t drawToken(const Doubles &probabilities, double number) {
  return runtime::drawToken({probabilities.data(), probabilities.data() + probabilities.shape(0)}, number);
}

} // namespace

void bindSampling(nb::module_ &m) {
  m.attr("DEVICE_ERROR") = runtime::deviceError;
  nb::class_<SamplingRules>(m, "SamplingRules")
      .def(
          "__init__",
          [](SamplingRules *rules, const Ids &biasTokens, const Floats &biasValues, double repetition, double presence,
             double frequency, double temperature, int64_t topK, double topP, double minP) {
            if (biasTokens.shape(0) != biasValues.shape(0))
              refuse("biases are not as many as their tokens");
            new (rules) SamplingRules{{}, repetition, presence, frequency, temperature, topK, topP, minP};
            for (size_t i = 0; i < biasTokens.shape(0); ++i)
              rules->bias.push_back({biasTokens.data()[i], biasValues.data()[i]});
          },
          nb::arg("bias_tokens"), nb::arg("bias_values"), nb::arg("repetition_penalty"), nb::arg("presence_penalty"),
          nb::arg("frequency_penalty"), nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"))
      .def_prop_ro("divisor", &SamplingRules::divisor)
      .def_prop_ro("needs_all_logits", &SamplingRules::needsAllLogits)
      .def("probabilities", &probabilities, nb::arg("logits"), nb::arg("context"), nb::arg("generated"))
      .def("choose", &choose, nb::arg("logits"), nb::arg("context"), nb::arg("number"), nb::arg("generated"))
      .def("choose_candidate", &chooseCandidate, nb::arg("tokens"), nb::arg("logits"), nb::arg("total"),
           nb::arg("error"), nb::arg("vocabulary"), nb::arg("number"));
  m.def("log_probability", &logProbability, nb::arg("logits"), nb::arg("token"));
  m.def("draw_token", &drawToken, nb::arg("probabilities"), nb::arg("number"));
}

} // namespace intarsia::python
