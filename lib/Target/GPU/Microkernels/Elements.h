//===- Elements.h - Elements of tensors and caches as microkernels read and write them ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formats of caches are those of #nn.cache_format.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ELEMENTS_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ELEMENTS_H

#include "Device.h"
#include "ElementKind.h"

using namespace intarsia::gpu;

template <typename T> inline T loadAs(Global base, int64_t index) { return ((ITX_GLOBAL const T *)base)[index]; }
template <typename T> inline void storeAs(Global base, int64_t index, T value) {
  ((ITX_GLOBAL T *)base)[index] = value;
}

inline float floatOfBf16(uint16_t bits) { return __builtin_bit_cast(float, uint32_t(bits) << 16); }
inline float floatOfF16(uint16_t bits) { return float(__builtin_bit_cast(_Float16, bits)); }

/// E4M3 without infinities: its exponent is biased by 7, that of f16 by 15.
inline float floatOfE4M3(uint8_t bits) {
  float value = floatOfF16(uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256.0f;
  return (bits & 0x7f) == 0x7f ? __builtin_nanf("") : value;
}

/// A number of at most 23 bits as a float, 2^23 too large: one instruction, and the difference to a biased zero is
/// exact.
constexpr float magic = 0x1p23f;
inline float floatAboveMagic(uint32_t number) { return __builtin_bit_cast(float, 0x4b000000u | number); }

/// A scale byte holds the bits 14 to 7 of an f16. The largest is the last one before infinity.
constexpr int scaleShift = 7, largestScale = 0xf7;
inline float floatOfScale(uint8_t byte) { return floatOfF16(uint16_t(byte << scaleShift)); }
/// Zeros of 4 bits have a sign.
inline float floatOfZero(uint8_t byte, int64_t kind) {
  return kind == ElementKind::UI4 ? float(int8_t(byte)) : float(byte);
}

/// Returns two neighbouring bytes of a word, the lower bytes of halves whose upper byte is that of each byte of
/// `upper`.
template <int first> inline uint32_t spreadBytes(uint32_t word, uint32_t upper) {
#if defined(__AMDGCN__)
  // Bytes 0 to 3 are those of the second operand (CDNA 3 ISA, "V_PERM_B32").
  return __builtin_amdgcn_perm(upper, word, 0x04000400 + first + ((first + 1) << 16));
#else
  auto low = __builtin_bit_cast(Vector<uint8_t, 4>, word), high = __builtin_bit_cast(Vector<uint8_t, 4>, upper);
  return __builtin_bit_cast(uint32_t, __builtin_shufflevector(low, high, first, 4, first + 1, 4));
#endif
}
/// Returns eight bytes likewise.
inline Vector<uint32_t, 4> spreadBytes(uint64_t bytes, uint32_t upper) {
  uint32_t low = uint32_t(bytes), high = uint32_t(bytes >> 32);
  return {spreadBytes<0>(low, upper), spreadBytes<2>(low, upper), spreadBytes<0>(high, upper),
          spreadBytes<2>(high, upper)};
}

/// A byte below this one is an f16: 1024 more than the byte.
constexpr uint32_t upperOf1024 = 0x64646464;
/// Returns eight quantized elements as f16, of bytes, and of scales and of zeros that are 1024 too large. Differences
/// of elements and zeros have at most 8 bits and are exact, so that a product is rounded once.
inline Vector<uint32_t, 4> dequantizeBytes(uint64_t bytes, Vector<uint32_t, 4> zeros, Vector<uint32_t, 4> scales) {
  using Halves = Vector<_Float16, 8>;
  auto elements = __builtin_bit_cast(Halves, spreadBytes(bytes, upperOf1024));
  Halves differences = elements - __builtin_bit_cast(Halves, zeros);
  return __builtin_bit_cast(Vector<uint32_t, 4>, differences * __builtin_bit_cast(Halves, scales));
}

/// Returns eight elements of E4M3, which are exact in f16. What is not a number stays so.
inline Vector<uint32_t, 4> halvesOfE4M3(uint64_t bytes) {
  Vector<uint32_t, 4> halves = spreadBytes(bytes, 0);
  Vector<uint32_t, 4> magnitudes = halves << 7 & 0x3f803f80u;
  // The largest magnitude alone carries into the highest bit of the exponent, and has all of its bits then.
  Vector<uint32_t, 4> bits = (halves << 8 & 0x80008000u) | magnitudes | ((magnitudes + 0x00800080u) & 0x40004000u);
  // The exponent of E4M3 is biased by 7, that of f16 by 15.
  auto biased = __builtin_bit_cast(Vector<_Float16, 8>, bits);
  return __builtin_bit_cast(Vector<uint32_t, 4>, biased * _Float16(256));
}

/// Values of 4 bits come in blocks of 32 in 16 bytes.
constexpr int64_t packedValues = 32, packedBytes = 16;

constexpr bool isQuantized(int64_t kind) { return kind == ElementKind::UI8 || kind == ElementKind::UI4; }

inline uint16_t bf16OfFloat(float value) { return __builtin_bit_cast(uint16_t, __bf16(value)); }
inline uint16_t f16OfFloat(float value) { return __builtin_bit_cast(uint16_t, _Float16(value)); }
/// Rounds two floats to f16 or bf16, the first into the lower half.
inline uint32_t roundPair(float low, float high, int64_t kind) {
  if (kind == ElementKind::F16)
    return __builtin_bit_cast(uint32_t, Vector<_Float16, 2>{_Float16(low), _Float16(high)});
  return __builtin_bit_cast(uint32_t, Vector<__bf16, 2>{__bf16(low), __bf16(high)});
}

/// Rounds to E4M3, ties to even, saturated.
inline uint8_t e4m3OfFloat(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  uint8_t sign = bits >> 24 & 0x80;
  if (value != value)
    return sign | 0x7f;
  float magnitude = smaller(__builtin_fabsf(value), 448.0f);
  // Below 2^-6 numbers are multiples of 2^-9: adding 2^14 rounds to those.
  if (magnitude < 0x1p-6f)
    return sign | uint8_t(__builtin_bit_cast(uint32_t, magnitude + 0x1p14f));
  uint32_t normal = __builtin_bit_cast(uint32_t, magnitude);
  normal += 0x7ffff + (normal >> 20 & 1);
  return sign | uint8_t((normal >> 20) - (120 << 3));
}

/// Returns an element of a float tensor.
inline float loadFloat(Global base, int64_t index, int64_t kind) {
  switch (kind) {
  case ElementKind::F16:
    return floatOfF16(loadAs<uint16_t>(base, index));
  case ElementKind::BF16:
    return floatOfBf16(loadAs<uint16_t>(base, index));
  case ElementKind::E4M3:
    return floatOfE4M3(loadAs<uint8_t>(base, index));
  default:
    return loadAs<float>(base, index);
  }
}

inline void storeFloat(Global base, int64_t index, int64_t kind, float value) {
  switch (kind) {
  case ElementKind::F16:
    return storeAs(base, index, f16OfFloat(value));
  case ElementKind::BF16:
    return storeAs(base, index, bf16OfFloat(value));
  case ElementKind::E4M3:
    return storeAs(base, index, e4m3OfFloat(value));
  default:
    return storeAs(base, index, value);
  }
}

/// Stores neighbouring elements, of which `inside` are in the row. `isAligned`: the first is at a multiple of their
/// size.
template <int count>
inline void storeRun(Global base, int64_t index, int64_t kind, const float (&x)[count], int64_t inside,
                     bool isAligned) {
  if constexpr (count > 1) {
    if (isAligned && inside >= count) {
      Vector<float, count> floats;
      Vector<uint16_t, count> halves;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        floats[i] = x[i];
        halves[i] = kind == ElementKind::F16 ? f16OfFloat(x[i]) : bf16OfFloat(x[i]);
      }
      if (kind == ElementKind::F32)
        *(ITX_GLOBAL Vector<float, count> *)(base + index * 4) = floats;
      else
        *(ITX_GLOBAL Vector<uint16_t, count> *)(base + index * 2) = halves;
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (i < inside)
      storeFloat(base, index + i, kind, x[i]);
}

/// Rounds to what a tail of keys holds.
inline float roundTo(float value, int64_t kind) {
  return kind == ElementKind::F16    ? floatOfF16(f16OfFloat(value))
         : kind == ElementKind::BF16 ? floatOfBf16(bf16OfFloat(value))
                                     : value;
}

inline int64_t loadInteger(Global base, int64_t index, int64_t kind) {
  return kind == ElementKind::I32 ? loadAs<int32_t>(base, index) : loadAs<int64_t>(base, index);
}

/// Elements that a lane reads at once: 16 bytes of f16.
constexpr int chunkElements = 8;

/// Returns the elements [first, first + 8) of a row of E4M3, or of quantized ones, whose chunks are whole: a byte each.
inline uint64_t loadBytes(Global row, int64_t first, int64_t kind) {
  if (kind != ElementKind::UI4)
    return loadAs<uint64_t>(row + first, 0);
  uint64_t bytes = loadAs<uint64_t>(row + first / packedValues * packedBytes + first % packedBytes, 0);
  return bytes >> (first % packedValues >= packedBytes ? 4 : 0) & 0x0f0f0f0f0f0f0f0f;
}

/// Loads the elements [first, first + 8) of a row of `count` elements; those behind the row's end are zero. Quantized
/// elements are `magic` too large. `isAligned` says that the row begins at a multiple of 16 bytes of elements that fill
/// 16 bytes, or less for elements of which eight are less.
inline void loadChunk(float (&x)[chunkElements], Global row, int64_t first, int64_t count, int64_t kind,
                      bool isAligned) {
  if (kind == ElementKind::UI4) {
    // Rows have a multiple of 32 elements.
    uint64_t bytes = first < count ? loadBytes(row, first, kind) : 0;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = floatAboveMagic(uint32_t(bytes >> 8 * i & 15));
    return;
  }
  if (isAligned && count % chunkElements == 0) {
    if (first >= count) {
#pragma unroll
      for (int i = 0; i < chunkElements; ++i)
        x[i] = kind == ElementKind::UI8 ? magic : 0;
      return;
    }
    if (kind == ElementKind::F32) {
      Vector<float, 4> low = loadAs<Vector<float, 4>>(row + first * 4, 0);
      Vector<float, 4> high = loadAs<Vector<float, 4>>(row + first * 4, 1);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = low[i];
        x[4 + i] = high[i];
      }
      return;
    }
    if (kind == ElementKind::F16 || kind == ElementKind::BF16) {
      Vector<uint16_t, 8> bits = loadAs<Vector<uint16_t, 8>>(row + first * 2, 0);
#pragma unroll
      for (int i = 0; i < chunkElements; ++i)
        x[i] = kind == ElementKind::F16 ? floatOfF16(bits[i]) : floatOfBf16(bits[i]);
      return;
    }
    Vector<uint8_t, 8> bytes = loadAs<Vector<uint8_t, 8>>(row + first, 0);
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = kind == ElementKind::E4M3 ? floatOfE4M3(bytes[i]) : floatAboveMagic(bytes[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < chunkElements; ++i) {
    bool isInside = first + i < count;
    if (kind == ElementKind::UI8)
      x[i] = floatAboveMagic(isInside ? loadAs<uint8_t>(row, first + i) : 0);
    else
      x[i] = isInside ? loadFloat(row, first + i, kind) : 0;
  }
}

/// The pages of a cache, [pages, heads, page, features] or, transposed, [pages, heads, features, page].
struct Pages {
  Global elements;
  Global parameters; ///< of quantized elements, [pages, heads, 2, groups]
  int64_t kind;
  bool isTransposed;
  int64_t heads, page, features;

  int64_t columns() const { return isTransposed ? page : features; }
  int64_t rows() const { return isTransposed ? features : page; }
  int64_t bytesOf(int64_t count) const {
    return kind == ElementKind::UI4                                ? count / 2
           : kind == ElementKind::F32                              ? count * 4
           : kind == ElementKind::F16 || kind == ElementKind::BF16 ? count * 2
                                                                   : count;
  }
  /// Returns where the elements of a head of a page begin.
  Global at(int64_t physical, int64_t head) const {
    return elements + (physical * heads + head) * rows() * bytesOf(columns());
  }
  Global parametersAt(int64_t physical, int64_t head, int64_t groups) const {
    return parameters + (physical * heads + head) * 2 * groups;
  }
};

/// Loads features [first, first + 8) of a slot of a page.
inline void loadFeatures(float (&x)[chunkElements], const Pages &pages, Global page, int64_t slot, int64_t first) {
  if (!pages.isTransposed) {
    loadChunk(x, page + slot * pages.bytesOf(pages.features), first, pages.features, pages.kind, true);
    return;
  }
#pragma unroll
  for (int i = 0; i < chunkElements; ++i) {
    bool isInside = first + i < pages.features;
    int64_t feature = isInside ? first + i : 0;
    if (pages.kind == ElementKind::UI4) {
      uint8_t byte = page[feature * (pages.page / 2) + slot / packedValues * packedBytes + slot % packedBytes];
      x[i] = floatAboveMagic(slot % packedValues >= packedBytes ? byte >> 4 : byte & 15);
    } else if (pages.kind == ElementKind::UI8) {
      x[i] = floatAboveMagic(page[feature * pages.page + slot]);
    } else {
      x[i] = isInside ? loadFloat(page, feature * pages.page + slot, pages.kind) : 0;
    }
  }
}

#endif
