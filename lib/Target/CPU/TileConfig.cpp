//===- TileConfig.cpp - The table of tile shapes ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/TileConfig.h"

#include "lib/Target/CPU/CpuTarget.h"

namespace intarsia::cpu {

llvm::StringRef nameOf(ByteDot dot) {
  static constexpr llvm::StringLiteral names[] = {"multiply-add", "pmaddwd", "vpdpbusd", "sdot", "usdot"};
  return names[int(dot)];
}

// bf16Dot: vdpbf16ps does twice the flops of f32 multiply-adds on Zen 5, half of them on Sapphire and Emerald Rapids
// (measured, bench/peak): bf16 is widened there. blockBytes: the larger part of the private second-level cache (2 MB
// from Sapphire Rapids on, 1 MB Zen 4 and 5, Skylake-X and Neoverse V, 256 KB the least of x86-64-v3's), the rest is
// for a panel. keyBlock: 32 queries by 128 keys of scores are 16 KB, half of a first-level cache. rows x columnVectors:
// what the register file holds beside the operands; 8x2 and 6x2 reach 94 to 98 % of the multiply-add peak with AVX-512
// and AVX2 (bench/gemm).
TileConfig chooseTiles(const llvm::Triple &triple, llvm::StringRef processor, llvm::ArrayRef<std::string> features) {
  auto has = [&](llvm::StringRef feature) { return llvm::is_contained(features, feature); };
  TileConfig tiles;
  if (triple.isAArch64())
    tiles = {.lanes = 4, .rows = 6, .columnVectors = 4, .blockBytes = 512 << 10, .keyBlock = 128};
  else if (has("avx512f"))
    tiles = {.lanes = 16, .rows = 8, .columnVectors = 2, .blockBytes = 640 << 10, .keyBlock = 128};
  else if (has("avx2"))
    tiles = {.lanes = 8, .rows = 6, .columnVectors = 2, .blockBytes = 128 << 10, .keyBlock = 128};
  else
    tiles = {.lanes = 4, .rows = 4, .columnVectors = 2, .blockBytes = 128 << 10, .keyBlock = 128};
  if (processor.ends_with("rapids"))
    tiles.blockBytes = 1536 << 10;
  // Quantized matmuls read little of the left operand for each instruction (4 bytes a cycle on Zen 5): it may come from
  // the third level, and 512 rows for each panel that is unpacked cost 2 % less than 256. 6x2 sums, as many more in
  // integers, weights and an activation fill 32 registers and reach 80 % of vpdpbusd's peak on Zen 5, which is what the
  // multiplications by scales leave of it; 4x2 71 %, 5x2 79 %, 7x2 and 8x2 77 %. With 16 registers 3x2 is the same.
  if (has("avx512f")) {
    tiles.quantizedRows = 6;
    tiles.tokenRows = 8;
    tiles.decodeRows = 8;
  } else if (has("avx2")) {
    tiles.quantizedRows = 3;
    tiles.tokenRows = has("avxvnni") ? 4 : 5; // 10 sums, two vectors of weights and one input of widened factors
  } else if (!has("ssse3")) {
    tiles.tokenRows = 2; // several instructions for each product of bytes: more rows are much code, and gain nothing
  }
  // llvm-mca's models of Neoverse N1 and V1 give 8x2 sums 84 and 89 % of the peak of sdot, 4x4 76 and 80, 5x4 82 and
  // 83: the fewer rows, the more often a weight's sign is flipped. With scales of blocks 5x2 is the best of 2x2, 3x2,
  // 4x2, 5x2 and 3x4. Not measured on a processor.
  if (has("dotprod") || has("i8mm")) {
    tiles.quantizedRows = 5;
    tiles.tokenRows = 8;
  }
  // Unpacked weights are read again for every six rows. Of Zen 5's 64 steps, 64 KB, 32 cost 1 %, 16 10 %; on Cascade
  // Lake, whose first-level cache holds 32 KB, 16 gain 2 (2048 x 5632) to 10 % (5632 x 2048).
  if (processor == "skylake-avx512" || processor == "cascadelake" || processor == "cooperlake") {
    tiles.unpackedSteps = 16;
    tiles.quantizedBlockBytes = 320 << 10; // 512 rows, as of 64 steps
  }
  // On Zen 4 prefetches into the first-level cache are limited by its misses in flight, to 17 GB/s of the 30 that a
  // core reads. Its own prefetchers reach 28, if lines are loaded in the order of their addresses and none is left out:
  // 18 where the last two of six come first, 10 where nine are left out. From 4 rows on products take as long as that.
  if (processor == "znver4")
    tiles.inOrderRows = 2;
  if (triple.isAArch64())
    tiles.byteDot = has("i8mm") ? ByteDot::Usdot : has("dotprod") ? ByteDot::Sdot : ByteDot::Plain;
  else if (tiles.lanes == 16)
    tiles.byteDot = has("avx512vnni") ? ByteDot::Vnni : has("avx512bw") ? ByteDot::Maddubs : ByteDot::Plain;
  else if (tiles.lanes == 8)
    tiles.byteDot = has("avxvnni") ? ByteDot::Vnni : ByteDot::Maddubs;
  else
    tiles.byteDot = has("ssse3") ? ByteDot::Maddubs : ByteDot::Plain;
  tiles.convertsF16 = triple.isAArch64() || has("f16c");
  tiles.convertsBf16 = triple.isAArch64() ? has("bf16") : has("avx512bf16");
  tiles.rounds = triple.isAArch64() || has("sse4.1");
  // Gathers of Zen 5 take 0.7 times as long as loads of single elements from the first-level cache, 0.9 times from the
  // second. Processors of Intel before Sapphire Rapids execute them slowly since the mitigation of Gather Data
  // Sampling.
  tiles.gathers = has("avx512f") && processor.starts_with("znver");
  tiles.bf16Dot = has("avx512bf16") && processor.starts_with("znver");
  return tiles;
}

} // namespace intarsia::cpu
