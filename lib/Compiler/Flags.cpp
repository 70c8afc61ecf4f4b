//===- Flags.cpp - The flags that an artifact says it was compiled with ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/Flags.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace intarsia::compiler {

std::vector<std::string> flagsOf(const CompileOptions &options) {
  std::vector<std::string> flags;
  if (options.quantize.format != "none")
    flags.push_back("--quantize=" + options.quantize.format);
  if (options.quantize.activations != QuantizeOptions().activations)
    flags.push_back("--quantize-activations=" + options.quantize.activations);
  if (options.quantize.matmulPrecision != QuantizeOptions().matmulPrecision)
    flags.push_back("--matmul-precision=" + options.quantize.matmulPrecision);
  if (options.quantize.attention != QuantizeOptions().attention)
    flags.push_back("--quantize-attention=" + options.quantize.attention);
  if (!options.quantize.parts.empty())
    flags.push_back("--quantize-parts=" + llvm::join(options.quantize.parts, ","));
  if (options.quantize.segment)
    flags.push_back("--segment=" + std::to_string(*options.quantize.segment));
  if (!options.quantize.caches.empty())
    flags.push_back("--kv=" + llvm::join(options.quantize.caches, ","));
  for (const std::string &placement : options.partition.placements)
    flags.push_back("--place=" + placement);
  if (!options.partition.gpuMemory.empty())
    flags.push_back("--gpu-memory=" + options.partition.gpuMemory);
  if (options.partition.world > 1)
    flags.push_back("--world=" + std::to_string(options.partition.world));
  if (std::string text = partitionText(options.partition); options.partition.world > 1 && text != "tensor")
    flags.push_back("--partition=" + text);
  if (!options.partition.rankMemory.empty())
    flags.push_back("--rank-memory=" + options.partition.rankMemory);
  for (auto [number, ranks] : llvm::enumerate(options.partition.hosts)) {
    if (number == 0)
      flags.push_back("--rank-hosts=");
    flags.back() += (number ? "," : "") + std::to_string(ranks);
  }
  if (!options.partition.network.empty())
    flags.push_back("--rank-network=" + options.partition.network);
  for (auto [number, speed] : llvm::enumerate(options.partition.speeds)) {
    if (number == 0)
      flags.push_back("--rank-speeds=");
    flags.back() += (number ? "," : "") + llvm::formatv("{0}", speed).str();
  }
  if (!options.partition.figures.empty())
    flags.push_back("--rank-figures=" + options.partition.figures);
  if (options.partition.roundsMessages)
    flags.push_back("--rank-messages=int8");
  if (!options.partition.rankLoad.empty())
    flags.push_back("--rank-load=" + options.partition.rankLoad);
  for (const std::string &decision : options.flip)
    flags.push_back("--flip=" + decision);
  return flags;
}

} // namespace intarsia::compiler
