//===- CpuFeatures.h - What the processor can do ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CPU_CPUFEATURES_H
#define INTARSIA_RUNTIME_CPU_CPUFEATURES_H

#include <string>
#include <string_view>
#include <vector>

namespace intarsia::runtime {

/// Features of this processor that its operating system lets programs use, by LLVM's names ("avx512vnni", "dotprod").
const std::vector<std::string> &hostFeatures();

/// Also true for names that only tune or that every processor of this architecture has.
bool hostHasFeature(std::string_view feature);

/// What to give to --target for code that this processor runs: "cpu:x86-64-v3".
std::string suggestedTarget();

/// The processor's name for people.
std::string hostCpuName();

} // namespace intarsia::runtime

#endif
