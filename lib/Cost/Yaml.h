//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// YAML of the catalogue as a plain tree with line numbers. yaml-cpp reports by exceptions, which stay in Yaml.cpp.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COST_YAML_H
#define INTARSIA_LIB_COST_YAML_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

struct YamlEntry;

struct YamlNode {
  enum class Kind { Null, Scalar, Sequence, Map };
  Kind kind = Kind::Null;
  int line = 0; ///< from 1
  std::string scalar;
  std::vector<YamlNode> items;    ///< of a sequence
  std::vector<YamlEntry> entries; ///< of a map, in order; keys differ

  YamlNode();
  YamlNode(YamlNode &&);
  YamlNode &operator=(YamlNode &&);
  ~YamlNode();

  const YamlNode *find(llvm::StringRef key) const;
  /// Returns a finite number; the error says `file:line: name: …`.
  llvm::Expected<double> number(llvm::StringRef file, llvm::StringRef name) const;
};

struct YamlEntry {
  std::string key;
  YamlNode node;
};

/// Reads one document without anchors and aliases, at most 64 KB and 32 levels deep; the error says `file:line: …`.
llvm::Expected<YamlNode> parseYaml(llvm::StringRef text, llvm::StringRef file);

/// Returns an error `file:line: message`.
llvm::Error yamlError(llvm::StringRef file, int line, const llvm::Twine &message);
/// Checks that a node is a map with all of these keys, and no others.
llvm::Error checkKeys(llvm::StringRef file, const YamlNode &map, llvm::ArrayRef<llvm::StringRef> keys);

} // namespace intarsia

#endif
