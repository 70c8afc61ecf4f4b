//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/MeasuredTimes.h"
#include "lib/Cost/Yaml.h"
#include "lib/Support/ElementTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace intarsia;

/// Interpolates the logarithm of `y` over the logarithm of `x`. Outside the range the nearest value stands.
static double interpolate(ArrayRef<double> x, ArrayRef<double> y, double at) {
  if (at <= x.front())
    return y.front();
  for (size_t i = 1; i < x.size(); ++i)
    if (at <= x[i]) {
      double share = std::log(at / x[i - 1]) / std::log(x[i] / x[i - 1]);
      return y[i - 1] * std::pow(y[i] / y[i - 1], share);
    }
  return y.back();
}

/// Returns the nanoseconds of 1000 weights on so many rows; beyond the last one, time grows as the rows do.
static double perThousand(ArrayRef<double> rows, ArrayRef<double> ns, double asked) {
  return interpolate(rows, ns, asked) * std::max(1.0, asked / rows.back());
}

double MeasuredTimes::layerUs(StringRef precision, double weights, double asked) const {
  std::vector<double> sizes, us;
  for (const Layer &layer : layers.at(precision.str())) {
    sizes.push_back(layer.weights);
    us.push_back(layer.weights * perThousand(rows, layer.ns, asked) * 1e-6);
  }
  return interpolate(sizes, us, weights) * std::max(1.0, weights / sizes.back());
}

double MeasuredTimes::headUs(StringRef precision, double weights, double asked) const {
  return weights * perThousand(rows, head.at(precision.str()), asked) * 1e-6;
}

double MeasuredTimes::encoderUs(StringRef precision, double weights, double asked) const {
  return weights * perThousand(rows, encoder.at(precision.str()), asked) * 1e-6;
}

double MeasuredTimes::promptScoresUs(double flops, double tokens) const {
  return flops * interpolate(prompts.tokens, prompts.ps, tokens) * 1e-6;
}

double MeasuredTimes::stepScoresUs(double flops, double tokens) const {
  return flops * interpolate(steps.tokens, steps.ps, tokens) * 1e-6;
}

std::string MeasuredTimes::decoderPrecisions() const {
  return join(map_range(layers, [](const auto &entry) { return entry.first; }), ", ");
}

namespace {
/// Reads the entry and keeps the file's name for errors.
class Reader {
public:
  explicit Reader(StringRef file) : file(file) {}

  Error at(const YamlNode &node, const Twine &what) const { return yamlError(file, node.line, "serving: " + what); }

  Expected<const YamlNode *> find(const YamlNode &map, StringRef key, YamlNode::Kind kind) const {
    const YamlNode *node = map.find(key);
    if (!node || node->kind != kind)
      return at(node ? *node : map, "'" + key + "' is missing or of another kind; intarsia-plan --probe writes it");
    return node;
  }

  /// Reads `count` numbers above zero; any number of them for 0.
  Error numbers(const YamlNode &map, StringRef key, size_t count, bool rising, std::vector<double> &into) const {
    Expected<const YamlNode *> list = find(map, key, YamlNode::Kind::Sequence);
    if (!list)
      return list.takeError();
    return readNumbers(**list, key, count, rising, into);
  }

  Error readNumbers(const YamlNode &list, StringRef key, size_t count, bool rising, std::vector<double> &into) const {
    for (const YamlNode &item : list.items) {
      Expected<double> value = item.number(file, key);
      if (!value)
        return value.takeError();
      if (!(*value > 0) || *value > 1e12)
        return at(item, key + " " + item.scalar + " is not above zero and at most 1e12");
      if (rising && !into.empty() && *value <= into.back())
        return at(item, key + " " + item.scalar + " does not rise");
      into.push_back(*value);
    }
    if (into.empty() || (count && into.size() != count))
      return at(list, key + formatv(" has {0} numbers, {1} expected", into.size(), count ? count : 1));
    return Error::success();
  }

  Error checkPrecision(const YamlNode &node, StringRef name) const {
    if (is_contained(elementTypes, std::string_view(name)))
      return Error::success();
    return at(node, "unknown precision '" + name + "'; they are " + join(ArrayRef(elementTypes), ", "));
  }

  Error byPrecision(const YamlNode &map, StringRef key, size_t count,
                    std::map<std::string, std::vector<double>> &into) const {
    Expected<const YamlNode *> found = find(map, key, YamlNode::Kind::Map);
    if (!found)
      return found.takeError();
    for (const auto &[precision, list] : (*found)->entries) {
      if (Error error = checkPrecision(list, precision))
        return error;
      if (Error error = readNumbers(list, precision, count, /*rising=*/false, into[precision]))
        return error;
    }
    return Error::success();
  }

  Error layers(const YamlNode &map, MeasuredTimes &times) const {
    Expected<const YamlNode *> found = find(map, "layers", YamlNode::Kind::Map);
    if (!found)
      return found.takeError();
    for (const auto &[precision, sizes] : (*found)->entries) {
      if (Error error = checkPrecision(sizes, precision))
        return error;
      std::vector<MeasuredTimes::Layer> &into = times.layers[precision];
      for (const YamlNode &size : sizes.items) {
        const YamlNode *weights = size.find("weights");
        if (!weights)
          return at(size, "layers " + precision + ": 'weights' is missing");
        Expected<double> value = weights->number(file, "weights");
        if (!value)
          return value.takeError();
        if (!(*value > 0) || (!into.empty() && *value <= into.back().weights))
          return at(*weights, "layers " + precision + ": weights " + weights->scalar + " do not rise");
        into.push_back({*value, {}});
        if (Error error = numbers(size, "ns", times.rows.size(), /*rising=*/false, into.back().ns))
          return error;
      }
      if (into.empty())
        return at(sizes, "layers " + precision + " has no sizes");
    }
    if (times.layers.empty())
      return at(**found, "'layers' has no precision");
    return Error::success();
  }

  Error scores(const YamlNode &map, StringRef key, MeasuredTimes::Scores &into) const {
    Expected<const YamlNode *> found = find(map, key, YamlNode::Kind::Map);
    if (!found)
      return found.takeError();
    if (Error error = numbers(**found, "tokens", 0, /*rising=*/true, into.tokens))
      return error;
    return numbers(**found, "ps", into.tokens.size(), /*rising=*/false, into.ps);
  }

private:
  std::string file;
};
} // namespace

Expected<MeasuredTimes> MeasuredTimes::parse(const YamlNode &node, StringRef file) {
  Reader reader(file);
  if (node.kind != YamlNode::Kind::Map)
    return reader.at(node, "is not a map");
  for (const auto &[key, value] : node.entries)
    if (!is_contained({"source", "date", "rows", "layers", "head", "encoder", "prompts", "steps", "hand_over"},
                      StringRef(key)))
      return reader.at(value, "unknown key '" + key + "'");
  MeasuredTimes times;
  for (auto [key, into] : {std::pair("source", &times.source), std::pair("date", &times.date)}) {
    Expected<const YamlNode *> text = reader.find(node, key, YamlNode::Kind::Scalar);
    if (!text)
      return text.takeError();
    *into = (*text)->scalar;
  }
  if (Error error = reader.numbers(node, "rows", 0, /*rising=*/true, times.rows))
    return std::move(error);
  if (Error error = reader.layers(node, times))
    return std::move(error);
  for (auto [key, into] : {std::pair("head", &times.head), std::pair("encoder", &times.encoder)})
    if (Error error = reader.byPrecision(node, key, times.rows.size(), *into))
      return std::move(error);
  for (const auto &layer : times.layers)
    if (!times.head.count(layer.first))
      return reader.at(node, "'layers' has the precision " + layer.first + ", 'head' has not");
  for (auto [key, into] : {std::pair("prompts", &times.prompts), std::pair("steps", &times.steps)})
    if (Error error = reader.scores(node, key, *into))
      return std::move(error);
  if (!node.find("hand_over"))
    return times;
  Expected<const YamlNode *> handOver = reader.find(node, "hand_over", YamlNode::Kind::Map);
  if (!handOver)
    return handOver.takeError();
  for (auto [key, into] : {std::pair("gbps", &times.handOverGBps), std::pair("us", &times.handOverUs)}) {
    const YamlNode *value = (*handOver)->find(key);
    Expected<double> number =
        value ? value->number(file, key) : Expected<double>(reader.at(**handOver, Twine("'") + key + "' is missing"));
    if (!number)
      return number.takeError();
    if (!(*number > 0))
      return reader.at(*value, Twine(key) + " is not above zero");
    *into = *number;
  }
  return times;
}

static std::string listOf(ArrayRef<double> values) {
  std::string text = "[";
  raw_string_ostream out(text);
  for (auto [index, value] : enumerate(values))
    out << (index ? ", " : "") << format("%.4g", value);
  return text + "]";
}

std::string MeasuredTimes::yaml() const {
  std::string text = "serving:\n";
  raw_string_ostream out(text);
  out << "  source: \"" << source << "\"\n  date: \"" << date << "\"\n  rows: " << listOf(rows) << "\n  layers:\n";
  for (const auto &[precision, sizes] : layers) {
    out << "    " << precision << ":\n";
    for (const Layer &layer : sizes)
      out << "      - {weights: " << format("%.0f", layer.weights) << ", ns: " << listOf(layer.ns) << "}\n";
  }
  for (auto [key, of] : {std::pair("head", &head), std::pair("encoder", &encoder)}) {
    out << "  " << key << ":\n";
    for (const auto &[precision, ns] : *of)
      out << "    " << precision << ": " << listOf(ns) << "\n";
  }
  for (auto [key, of] : {std::pair("prompts", &prompts), std::pair("steps", &steps)})
    out << "  " << key << ": {tokens: " << listOf(of->tokens) << ", ps: " << listOf(of->ps) << "}\n";
  if (handOverGBps > 0)
    out << "  hand_over: {gbps: " << format("%.4g", handOverGBps) << ", us: " << format("%.4g", handOverUs) << "}\n";
  return text;
}
