//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Decisions.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace intarsia::fuse;

std::string intarsia::fuse::locationName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (std::string name = locationName(part); !name.empty())
        return name;
    return "";
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return locationName(call.getCallee());
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return (llvm::sys::path::filename(file.getFilename()) + ":" + Twine(file.getLine())).str();
  return "";
}

bool intarsia::fuse::matchesDecision(StringRef pattern, StringRef id) {
  if (pattern == id)
    return true;
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
  if (glob)
    return glob->match(id);
  llvm::consumeError(glob.takeError());
  return false;
}

/// Ids go through command lines and pass options: what means something there becomes '_'.
static std::string plain(StringRef text) {
  std::string result;
  for (char c : text)
    result += llvm::isAlnum(c) || StringRef("_.:/#-").contains(c) ? c : '_';
  return result;
}

Decisions::Decisions(func::FuncOp function, StringRef pass, ArrayRef<std::string> flip)
    : function(function), pass(pass), flip(flip.begin(), flip.end()) {}

bool Decisions::joins(const Choice &choice, std::string &why) {
  std::string label = locationName(choice.root->getLoc());
  std::string root = label.empty() ? choice.root->getName().getStringRef().str() : label;
  std::string id = plain(pass + ":" + function.getSymName().str() + ":" + root + ":" + choice.subject);
  if (unsigned count = ++uses[id]; count > 1)
    id += "#" + std::to_string(count);

  bool inside = choice.insideUs <= choice.apartUs;
  bool forced = llvm::any_of(flip, [&](const std::string &pattern) { return matchesDecision(pattern, id); });
  inside ^= forced;

  Builder builder(function.getContext());
  auto text = [&](StringRef name, StringRef value) { return builder.getNamedAttr(name, builder.getStringAttr(value)); };
  auto number = [&](StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  };
  taken.push_back(builder.getDictionaryAttr(
      {text("id", id), text("pass", pass), text("location", label), text("root", stringifyKernelRoot(choice.rootKind)),
       text("op", choice.subject), text("chosen", inside ? "inside" : "apart"), text("reason", choice.reason),
       number("inside_us", choice.insideUs), number("apart_us", choice.apartUs),
       builder.getNamedAttr("forced", builder.getBoolAttr(forced))}));
  if (inside) {
    if (!why.empty())
      why += "; ";
    why += llvm::formatv("{0}: {1:f1} us inside, {2:f1} apart{3}", choice.subject, choice.insideUs, choice.apartUs,
                         forced ? " (forced)" : "");
  }
  return inside;
}

void Decisions::record() {
  if (taken.empty())
    return;
  SmallVector<Attribute> all;
  if (auto before = function->getAttrOfType<ArrayAttr>("nn.decisions"))
    all.append(before.begin(), before.end());
  all.append(taken);
  function->setAttr("nn.decisions", ArrayAttr::get(function.getContext(), all));
  taken.clear();
}
