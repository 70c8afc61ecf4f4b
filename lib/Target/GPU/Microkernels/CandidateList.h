//===- CandidateList.h - The largest logits that a warp has seen, in order ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CANDIDATELIST_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CANDIDATELIST_H

#include "CandidateShapes.h"
#include "Device.h"

using namespace intarsia::gpu::candidates;

constexpr int warpsOfBlock = threadsOfBlock / warpSize, slotsOfList = listSize / warpSize;

inline int laneIndex() { return threadIndex() % warpSize; }

/// An entry of a list: the larger it is, the earlier its logit comes. The upper half compares as logits do, with NaN
/// the largest; the lower half is the larger, the lower the token is. No logit has the entry 0.
constexpr uint64_t noEntry = 0;
inline uint64_t makeEntry(float logit, uint32_t token) {
  // Adding zero makes -0 equal to 0. The larger a negative float's magnitude, the larger are its bits.
  uint32_t bits = __builtin_bit_cast(uint32_t, logit + 0.0f);
  uint32_t key = logit != logit ? ~0u : bits ^ (bits >> 31 ? ~0u : 1u << 31);
  return uint64_t(key) << 32 | uint32_t(~token);
}
inline uint32_t tokenOf(uint64_t entry) { return ~uint32_t(entry); }

/// Entries in the registers of a warp: number `slot * warpSize + lane` is in a slot of a lane.
struct CandidateList {
  uint64_t entry[slotsOfList];
};

template <int mask> inline uint32_t exchangeWord(uint32_t word) {
  return __builtin_bit_cast(uint32_t, exchange<mask>(__builtin_bit_cast(float, word)));
}
template <int mask> inline uint64_t exchangeEntry(uint64_t entry) {
  return uint64_t(exchangeWord<mask>(uint32_t(entry >> 32))) << 32 | exchangeWord<mask>(uint32_t(entry));
}

/// Orders pairs of entries whose numbers differ in the bit `stride`: those of a block of `size` entries in one
/// direction, those of the next block in the other.
template <int size, int stride, bool descending> inline void comparePairs(CandidateList &list) {
  if constexpr (stride >= warpSize) {
    static_assert(slotsOfList <= 2 && size == listSize);
    uint64_t first = list.entry[0], second = list.entry[slotsOfList - 1];
    bool isOrdered = (first > second) == descending;
    list.entry[0] = isOrdered ? first : second;
    list.entry[slotsOfList - 1] = isOrdered ? second : first;
  } else {
#pragma unroll
    for (int slot = 0; slot < slotsOfList; ++slot) {
      int number = slot * warpSize + laneIndex();
      bool keepsLarger = (((number & stride) == 0) == ((number & size) == 0)) == descending;
      uint64_t other = exchangeEntry<stride>(list.entry[slot]);
      list.entry[slot] = (list.entry[slot] > other) == keepsLarger ? list.entry[slot] : other;
    }
  }
}

/// Sorts blocks of `size` entries that rise and then fall, or the other way round.
template <int size, bool descending, int stride = size / 2> inline void sortBitonic(CandidateList &list) {
  comparePairs<size, stride, descending>(list);
  if constexpr (stride > 1)
    sortBitonic<size, descending, stride / 2>(list);
}

/// Sorts a list (Batcher 1968, "Sorting networks and their applications").
template <bool descending, int size = listSize> inline void sort(CandidateList &list) {
  if constexpr (size > 2)
    sort<descending, size / 2>(list);
  sortBitonic<size, descending>(list);
}

/// Makes a descending list that of the largest entries of itself and of an ascending one.
inline void mergeAscending(CandidateList &list, const CandidateList &ascending) {
#pragma unroll
  for (int slot = 0; slot < slotsOfList; ++slot)
    if (ascending.entry[slot] > list.entry[slot])
      list.entry[slot] = ascending.entry[slot];
  sortBitonic<listSize, /*descending=*/true>(list);
}

using SharedEntries = ITX_SHARED uint64_t *;
using GlobalEntries = ITX_GLOBAL uint64_t *;

template <typename Entries> inline void storeList(const CandidateList &list, Entries to) {
#pragma unroll
  for (int slot = 0; slot < slotsOfList; ++slot)
    to[slot * warpSize + laneIndex()] = list.entry[slot];
}
/// Loads a descending list as an ascending one.
template <typename Entries> inline CandidateList loadReversed(Entries from) {
  CandidateList list;
#pragma unroll
  for (int slot = 0; slot < slotsOfList; ++slot)
    list.entry[slot] = from[listSize - 1 - (slot * warpSize + laneIndex())];
  return list;
}

#endif
