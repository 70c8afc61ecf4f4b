//===- CpuFeatures.h - What the processor can do ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_CPUFEATURES_H
#define INTARSIA_LIB_SUPPORT_CPUFEATURES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia {

/// Returns the features of CpuFeatures.def that this processor has and that its operating system lets programs use.
const std::vector<std::string> &hostFeatures();

/// Returns the value of --target for code that this processor runs: "cpu:x86-64-v3".
std::string suggestedTarget();

/// LLVM's name of this processor ("znver5"), which target variants carry; empty for one that is in no table.
const std::string &hostProcessorName();

/// Returns the same name for given figures; `features` distinguishes processors that share a model number.
std::string x86ProcessorName(std::string_view vendor, uint32_t family, uint32_t model,
                             const std::vector<std::string> &features);
std::string armProcessorName(uint32_t implementer, uint32_t part);

/// The processor's name for people.
std::string hostDescription();

} // namespace intarsia

#endif
