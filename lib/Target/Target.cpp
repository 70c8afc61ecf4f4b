//===- Target.cpp - The targets that exist ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Target.h"

#include "lib/Target/CPU/CpuTarget.h"

using namespace llvm;

namespace intarsia::target {

namespace {
struct Entry {
  StringRef name;
  Expected<std::unique_ptr<Target>> (*create)(StringRef spec);
};
/// One line a target.
constexpr Entry targets[] = {
    {"cpu", cpu::createCpuTarget},
};
} // namespace

Expected<std::unique_ptr<Target>> Target::create(StringRef spec) {
  auto [name, rest] = spec.split(':');
  for (const Entry &entry : targets)
    if (entry.name == name)
      return entry.create(rest);
  std::string known;
  for (const Entry &entry : targets)
    known += (known.empty() ? "" : ", ") + entry.name.str();
  return createStringError("unknown target '" + spec + "': the targets are " + known +
                           " (for instance cpu, cpu:znver5, cpu:x86-64-v3, cpu:aarch64)");
}

} // namespace intarsia::target
