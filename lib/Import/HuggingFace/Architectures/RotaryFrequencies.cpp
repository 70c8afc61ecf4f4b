//===- RotaryFrequencies.cpp - Frequencies of rotary position embeddings ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/RotaryFrequencies.h"

#include <algorithm>
#include <cmath>

namespace intarsia::importer {

static constexpr double twoPi = 6.283185307179586;
static constexpr double largest = 1e9; // largest plausible factor

/// Returns the original context, looked up in the same order as in transformers.
static int64_t originalContext(const Config &config, const Config &scaling) {
  constexpr llvm::StringLiteral setting = "original_max_position_embeddings";
  config.refuseIfDifferent(setting, scaling, setting);
  int64_t maximum = config.integer("max_position_embeddings", 2048);
  return config.integer(setting, scaling.integer(setting, maximum));
}

static std::string kindOf(const Config &scaling) {
  auto kindIn = [&](llvm::StringRef setting) {
    std::string kind = scaling.string(setting, "default");
    // Early configurations of Phi-3 have these names.
    return kind == "su" || (kind == "yarn" && scaling.has("short_factor")) ? "longrope" : kind;
  };
  constexpr llvm::StringLiteral now = "rope_type", before = "type";
  if (scaling.has(now) && scaling.has(before) && kindIn(now) != kindIn(before))
    scaling.refuseIfDifferent(now, scaling, before);
  return kindIn(scaling.has(now) ? now : before);
}

/// Returns parameters in one spelling, with the settings that may stand beside them.
static llvm::json::Object completed(const Config &config, const Config &parameters) {
  llvm::json::Object result;
  for (llvm::StringRef setting : {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"})
    if (const llvm::json::Value *value = config.find(setting))
      result[setting] = *value;
  for (const auto &[setting, value] : *parameters.value().getAsObject())
    if (parameters.has(setting))
      result[setting] = value;
  result.erase("type");
  result["rope_type"] = kindOf(parameters);
  return result;
}

/// Returns the section of parameters. Configurations had "rope_scaling" before transformers 5, which writes
/// "rope_parameters" and reads rope_scaling where both are there; where they differ one of them is a mistake.
static std::optional<Config> parametersOf(const Config &config) {
  std::optional<Config> now = config.section("rope_parameters"), before = config.section("rope_scaling");
  auto isEmpty = [](const std::optional<Config> &section) {
    return !section || section->value().getAsObject()->empty();
  };
  if (isEmpty(before))
    return now;
  if (!isEmpty(now) && completed(config, *now) != completed(config, *before))
    config.refuseIfDifferent("rope_scaling", config, "rope_parameters");
  return before;
}

/// Reads a setting that a kind of frequencies has no default for.
static double neededNumber(const Config &scaling, llvm::StringRef setting, double minimum, double maximum) {
  if (!scaling.has(setting))
    scaling.report(setting + " is not there, which frequencies of rope_type '" + kindOf(scaling) + "' need");
  return scaling.number(setting, 1.0, minimum, maximum);
}

/// Scales the frequencies of Llama 3.1. Wavelengths longer than the original context / low_freq_factor are stretched by
/// `factor`, wavelengths shorter than the original context / high_freq_factor stay, and between them the two are
/// blended.
static void scaleLlama3(const Config &scaling, int64_t originalContext, std::vector<float> &frequencies) {
  double factor = neededNumber(scaling, "factor", 1.0, largest),
         low = neededNumber(scaling, "low_freq_factor", 0.0, largest);
  double high = neededNumber(scaling, "high_freq_factor", 0.0, largest);
  auto context = static_cast<double>(originalContext);
  if (high <= low)
    return scaling.report("high_freq_factor must be above low_freq_factor");
  for (float &frequency : frequencies) {
    double turns = context * frequency / twoPi; // turns over the original context
    double blend = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = static_cast<float>((1 - blend) * frequency / factor + blend * frequency);
  }
}

/// Scales the frequencies by equations 15 to 23 of arXiv 2309.00071.
static void scaleYarn(const Config &config, const Config &scaling, double theta, int64_t rotaryDim,
                      RotaryFrequencies &result) {
  int64_t original = originalContext(config, scaling);
  // Null means the ratio of the contexts, as in transformers.
  double factor =
      scaling.mentions("factor") && !scaling.has("factor")
          ? static_cast<double>(config.integer("max_position_embeddings", 2048)) / static_cast<double>(original)
          : neededNumber(scaling, "factor", 1.0, largest);
  double fast = scaling.number("beta_fast", 32.0, 0.01, largest),
         slow = scaling.number("beta_slow", 1.0, 0.01, largest);
  auto context = static_cast<double>(original);
  // Returns the pair that makes so many turns over the original context.
  auto pairOf = [&](double turns) {
    return static_cast<double>(rotaryDim) * std::log(context / (turns * twoPi)) / (2 * std::log(theta));
  };
  double first = pairOf(fast), last = pairOf(slow);
  if (scaling.flag("truncate", true)) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(rotaryDim - 1));
  if (first == last)
    last += 0.001; // as transformers does, so that the ramp has a slope
  for (size_t i = 0; i < result.frequencies.size(); ++i) {
    double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    double frequency = result.frequencies[i];
    result.frequencies[i] = static_cast<float>(frequency / factor * ramp + frequency * (1 - ramp));
  }
  auto scaleOf = [&](double multiplier) { return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0; };
  // Zero is no multiplier, as in transformers.
  double multiplier = scaling.number("mscale", 0.0, 0.0, largest);
  double divisor = scaling.number("mscale_all_dim", 0.0, 0.0, largest);
  if (scaling.has("attention_factor"))
    result.attentionFactor = static_cast<float>(scaling.number("attention_factor", 1.0, 0.0, largest));
  else if (multiplier != 0 && divisor != 0)
    result.attentionFactor = static_cast<float>(scaleOf(multiplier) / scaleOf(divisor));
  else
    result.attentionFactor = static_cast<float>(scaleOf(1.0));
}

/// Divides each frequency by its factor in a list; reports and returns false if the list is not valid.
static bool divideByFactors(const Config &scaling, llvm::StringRef setting, std::vector<float> &frequencies) {
  std::vector<double> factors = scaling.numbers(setting, 1e-9, largest);
  if (factors.size() != frequencies.size()) {
    scaling.report(setting + " has " + llvm::Twine(factors.size()) + " numbers, a head has " +
                   llvm::Twine(frequencies.size()) + " pairs of features to rotate");
    return false;
  }
  for (auto [frequency, factor] : llvm::zip(frequencies, factors))
    frequency = static_cast<float>(frequency / factor);
  return true;
}

/// Scales the frequencies by section 3.2 of arXiv 2402.13753: each frequency has one factor for texts up to the
/// original context and one for longer texts.
static void scaleLongRope(const Config &config, const Config &scaling, int64_t context, RotaryFrequencies &result) {
  int64_t original = originalContext(config, scaling);
  std::vector<float> ofShort = result.frequencies, ofLong = result.frequencies;
  if (!divideByFactors(scaling, "short_factor", ofShort) || !divideByFactors(scaling, "long_factor", ofLong))
    return;
  result.frequencies = context > original ? ofLong : ofShort;
  double byDefault =
      static_cast<double>(config.integer("max_position_embeddings", 2048)) / static_cast<double>(original);
  double factor = scaling.number("factor", byDefault, 1e-9, largest);
  double attention =
      factor <= 1.0 || original < 2 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original)));
  result.attentionFactor = static_cast<float>(scaling.number("attention_factor", attention, 0.0, largest));
}

int64_t exactContext(const Config &config, int64_t maximum) {
  std::optional<Config> parameters = parametersOf(config);
  return parameters && kindOf(*parameters) == "longrope" ? std::min(originalContext(config, *parameters), maximum)
                                                         : maximum;
}

RotaryFrequencies readRotaryFrequencies(const Config &config, int64_t headDim, double thetaByDefault, int64_t context,
                                        RotatedFeatures features, std::optional<Config> byDefault) {
  std::optional<Config> parameters = parametersOf(config);
  if (!parameters)
    parameters = std::move(byDefault);
  for (llvm::StringRef type : {"full_attention", "sliding_attention"})
    if (parameters)
      parameters->refuseIfSet(type, "models of this type have the same frequencies in all layers");
  return makeRotaryFrequencies(config, parameters, "rope_theta", thetaByDefault, headDim, context, features);
}

/// Reads the share of a head's features that are rotated. Models that rotate all of them ignore the setting, unless
/// their frequencies are scaled: then transformers' fail.
static double readShare(const Config &config, const std::optional<Config> &parameters, RotatedFeatures features,
                        llvm::StringRef kind, RotaryFrequencies &result) {
  constexpr llvm::StringLiteral setting = "partial_rotary_factor";
  if (parameters)
    config.refuseIfDifferent(setting, *parameters, setting);
  const Config &source = parameters && parameters->has(setting) ? *parameters : config;
  double share = source.number(setting, 1.0, 0.0, 1.0);
  if (share == 1.0 || features == RotatedFeatures::PartialRotaryFactor)
    return share;
  constexpr llvm::StringLiteral reason = "models of this type rotate all features of a head";
  if (kind == "default")
    result.remark = source.name() + ": " + setting.str() + " has no effect: " + reason.str();
  else
    source.refuseIfSet(setting, reason);
  return 1.0;
}

RotaryFrequencies makeRotaryFrequencies(const Config &config, const std::optional<Config> &parameters,
                                        llvm::StringRef thetaSetting, double thetaByDefault, int64_t headDim,
                                        int64_t context, RotatedFeatures features) {
  double theta = config.number(thetaSetting, thetaByDefault, 1.0, 1e12);
  std::string kind = "default";
  if (parameters) {
    config.refuseIfDifferent(thetaSetting, *parameters, "rope_theta");
    kind = kindOf(*parameters);
    theta = parameters->number("rope_theta", theta, 1.0, 1e12);
  }
  RotaryFrequencies result;
  result.interleaved = config.flag("rope_interleaved", false);
  double share = readShare(config, parameters, features, kind, result);
  int64_t rotaryDim = config.integer("rope_dimensions", static_cast<int64_t>(static_cast<double>(headDim) * share), 0);
  if (rotaryDim < 2 || rotaryDim > headDim || rotaryDim % 2 != 0) {
    llvm::StringRef setting = config.has("rope_dimensions") ? "rope_dimensions" : "partial_rotary_factor";
    config.report(setting + " must leave an even number of the " + llvm::Twine(headDim) +
                  " features of a head to rotate");
    return result;
  }
  for (int64_t i = 0; i < rotaryDim; i += 2)
    result.frequencies.push_back(
        static_cast<float>(std::pow(theta, -static_cast<double>(i) / static_cast<double>(rotaryDim))));
  if (kind == "linear") {
    double factor = neededNumber(*parameters, "factor", 1e-9, largest);
    for (float &frequency : result.frequencies)
      frequency = static_cast<float>(frequency / factor);
  } else if (kind == "llama3") {
    scaleLlama3(*parameters, originalContext(config, *parameters), result.frequencies);
  } else if (kind == "yarn") {
    scaleYarn(config, *parameters, theta, rotaryDim, result);
  } else if (kind == "dynamic") {
    // Frequencies change only for texts beyond max_position_embeddings, which no forward step takes.
    neededNumber(*parameters, "factor", 1.0, largest);
  } else if (kind == "longrope") {
    scaleLongRope(config, *parameters, context, result);
  } else if (kind == "factors") {
    divideByFactors(*parameters, "factors", result.frequencies);
  } else if (kind != "default") {
    parameters->refuse("rope_type", kind, {"default", "dynamic", "linear", "llama3", "longrope", "yarn"});
  }
  return result;
}

} // namespace intarsia::importer
