//===- Target.cpp - The targets that exist ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Target.h"

#include "lib/Target/CPU/CpuTarget.h"
#include "llvm/ADT/MapVector.h"

using namespace llvm;

namespace intarsia::target {

namespace {
struct Entry {
  StringRef name;
  /// `specs`: what stands behind the colons.
  Expected<std::vector<std::unique_ptr<Target>>> (*create)(ArrayRef<StringRef> specs);
};
/// One line a target.
constexpr Entry targets[] = {
    {"cpu", cpu::createCpuTargets},
};
} // namespace

Expected<std::vector<std::unique_ptr<Target>>> Target::create(ArrayRef<std::string> specs) {
  MapVector<const Entry *, SmallVector<StringRef>> specsOfEntry;
  for (StringRef spec : specs) {
    auto [name, rest] = spec.split(':');
    const Entry *entry = find_if(targets, [&](const Entry &each) { return each.name == name; });
    if (entry == std::end(targets)) {
      std::string known;
      for (const Entry &each : targets)
        known += (known.empty() ? "" : ", ") + each.name.str();
      return createStringError("unknown target '" + spec + "': the targets are " + known +
                               " (for instance cpu, cpu:znver5, cpu:x86-64-v3, cpu:aarch64)");
    }
    specsOfEntry[entry].push_back(rest);
  }
  std::vector<std::unique_ptr<Target>> result;
  for (const auto &[entry, list] : specsOfEntry) {
    auto made = entry->create(list);
    if (!made)
      return made.takeError();
    std::move(made->begin(), made->end(), std::back_inserter(result));
  }
  return result;
}

} // namespace intarsia::target
