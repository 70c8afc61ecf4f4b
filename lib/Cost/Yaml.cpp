//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/Yaml.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>
#include <set>
#include <sstream>
#include <stack>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

using namespace llvm;
using namespace intarsia;

namespace {

constexpr size_t mostBytes = 1 << 17;
constexpr size_t deepest = 32;

/// An error while reading; thrown and caught in this file.
struct Refused {
  int line;
  std::string message;
};

/// Builds the tree from yaml-cpp's events, which, unlike its nodes, report aliases before they are followed.
class TreeBuilder final : public YAML::EventHandler {
public:
  YamlNode root;

  void OnDocumentStart(const YAML::Mark &) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark &mark, YAML::anchor_t) override { add(mark, YamlNode::Kind::Null, ""); }
  void OnAlias(const YAML::Mark &mark, YAML::anchor_t) override {
    throw Refused{mark.line + 1, "aliases are not read here"};
  }
  void OnScalar(const YAML::Mark &mark, const std::string &, YAML::anchor_t, const std::string &value) override {
    if (!open.empty() && open.top().node->kind == YamlNode::Kind::Map && !open.top().hasKey) {
      Open &map = open.top();
      if (map.node->find(value))
        throw Refused{mark.line + 1, "'" + value + "' is given twice"};
      map.key = value;
      map.hasKey = true;
      return;
    }
    add(mark, YamlNode::Kind::Scalar, value);
  }
  void OnSequenceStart(const YAML::Mark &mark, const std::string &, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    push(mark, YamlNode::Kind::Sequence);
  }
  void OnSequenceEnd() override { open.pop(); }
  void OnMapStart(const YAML::Mark &mark, const std::string &, YAML::anchor_t, YAML::EmitterStyle::value) override {
    push(mark, YamlNode::Kind::Map);
  }
  void OnMapEnd() override { open.pop(); }

private:
  struct Open {
    YamlNode *node;
    std::string key;
    bool hasKey = false;
  };

  YamlNode *add(const YAML::Mark &mark, YamlNode::Kind kind, const std::string &value) {
    YamlNode *node = &root;
    if (!open.empty()) {
      Open &parent = open.top();
      if (parent.node->kind == YamlNode::Kind::Sequence) {
        node = &parent.node->items.emplace_back();
      } else {
        if (!parent.hasKey)
          throw Refused{mark.line + 1, "a key must be a word"};
        node = &parent.node->entries.emplace_back(YamlEntry{parent.key, YamlNode()}).node;
        parent.hasKey = false;
      }
    }
    node->kind = kind;
    node->line = mark.line + 1;
    node->scalar = value;
    return node;
  }
  void push(const YAML::Mark &mark, YamlNode::Kind kind) {
    if (open.size() == deepest)
      throw Refused{mark.line + 1, "nested deeper than " + std::to_string(deepest) + " levels"};
    // A parent's vector grows only after this node is closed, so the pointer stays.
    open.push({add(mark, kind, ""), "", false});
  }

  std::stack<Open> open;
};

} // namespace

YamlNode::YamlNode() = default;
YamlNode::YamlNode(YamlNode &&) = default;
YamlNode &YamlNode::operator=(YamlNode &&) = default;
YamlNode::~YamlNode() = default;

const YamlNode *YamlNode::find(StringRef key) const {
  for (const auto &[name, node] : entries)
    if (name == key)
      return &node;
  return nullptr;
}

Error intarsia::yamlError(StringRef file, int line, const Twine &message) {
  return createStringError(inconvertibleErrorCode(), Twine(file) + ":" + Twine(line) + ": " + message);
}

Error intarsia::checkKeys(StringRef file, const YamlNode &map, ArrayRef<StringRef> keys) {
  if (map.kind != YamlNode::Kind::Map)
    return yamlError(file, map.line, "is not a map");
  for (const auto &[key, node] : map.entries)
    if (!is_contained(keys, StringRef(key)))
      return yamlError(file, node.line, "unknown key '" + key + "'; it has " + join(keys, ", "));
  for (StringRef key : keys)
    if (!map.find(key))
      return yamlError(file, map.line, "missing required key '" + key + "'");
  return Error::success();
}

Expected<double> YamlNode::number(StringRef file, StringRef name) const {
  double value = 0;
  if (kind != Kind::Scalar || StringRef(scalar).getAsDouble(value))
    return yamlError(file, line, name + ": '" + scalar + "' is not a number");
  if (!std::isfinite(value))
    return yamlError(file, line, name + ": '" + scalar + "' is not finite");
  return value;
}

Expected<YamlNode> intarsia::parseYaml(StringRef text, StringRef file) {
  if (text.size() > mostBytes)
    return yamlError(file, 1, "is longer than " + Twine(mostBytes) + " bytes");
  std::istringstream stream(text.str());
  TreeBuilder builder;
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder))
      return yamlError(file, 1, "is empty");
  } catch (const YAML::Exception &exception) {
    return yamlError(file, exception.mark.line + 1, exception.msg);
  } catch (const Refused &refused) {
    return yamlError(file, refused.line, refused.message);
  }
  return std::move(builder.root);
}
