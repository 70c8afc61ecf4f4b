//===- PublishCopy.h - Copies into memory that another processor reads -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_PUBLISHCOPY_H
#define INTARSIA_RUNTIME_COLLECTIVES_PUBLISHCOPY_H

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace intarsia::runtime {

/// Fewest bytes that are written past the caches. 4 KiB are exchanged in 1.2 µs this way and in 2.2 µs through caches
/// where two processors are far from each other, but the other way round where they share a cache.
inline constexpr uint64_t streamedBytes = 8192;

/// Copies to memory that begins at a cache line and that another processor reads next. Large copies go past the caches:
/// between two processors of a Zen 5 machine that share no near cache, buffers that are written again and again and
/// read from the writer's cache pass on 2 GB/s, and 9 GB/s this way (1 MiB in rounds of 32 KiB).
inline void publishCopy(uint8_t *destination, const uint8_t *source, uint64_t bytes) {
  uint64_t done = 0;
#if defined(__x86_64__)
  if (bytes >= streamedBytes) {
    for (; done + 64 <= bytes; done += 64) {
      __m128i lines[4];
      for (int i = 0; i < 4; ++i)
        lines[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + done + 16 * i));
      for (int i = 0; i < 4; ++i)
        _mm_stream_si128(reinterpret_cast<__m128i *>(destination + done + 16 * i), lines[i]);
    }
    // The stores above are not ordered with the one that says that they are done.
    _mm_sfence();
  }
#endif
  std::memcpy(destination + done, source + done, bytes - done);
}

} // namespace intarsia::runtime

#endif
