//===- Reduce.cpp - Sums and maxima over ranks -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops are vectorised by the C++ compiler, once for every processor of the architecture and once for x86 with
// AVX2. All make the same roundings: only additions are rounded, and their order is that of the ranks.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Reduce.h"

#include "lib/Formats/FloatFormats.h"
#include "lib/Support/CpuFeatures.h"

#include <algorithm>
#include <type_traits>

#if defined(__clang__)
#define ITX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ITX_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace intarsia::runtime {

namespace {

// An element type: how it is stored, what it is combined in.
template <typename T> struct PlainElement {
  using Stored = T;
  using Value = T;
  static inline T load(T value) { return value; }
  static inline T store(T value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  using Value = float;
  static inline float load(uint16_t bits) { return decodeF16(bits); }
  static inline uint16_t store(float value) { return encodeF16(value); }
};
struct Brain {
  using Stored = uint16_t;
  using Value = float;
  static inline float load(uint16_t bits) { return decodeBf16(bits); }
  static inline uint16_t store(float value) { return encodeBf16(value); }
};

template <Reduction reduction, typename T> inline __attribute__((always_inline)) T combine(T left, T right) {
  if constexpr (reduction == Reduction::Maximum)
    return right > left || right != right ? right : left;
  else if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(left) + std::make_unsigned_t<T>(right));
  else
    return left + right;
}

/// Elements that are combined at a time: their values stay in the nearest cache, 4 KiB of 8 bytes each.
constexpr size_t blockElements = 512;

template <typename Type, Reduction reduction>
inline __attribute__((always_inline)) void reduce(void *destination, const void *const *sources, size_t count,
                                                  size_t elements) {
  using Stored = typename Type::Stored;
  using Value = typename Type::Value;
  auto *to = static_cast<Stored *>(destination);
  if (count == 2) {
    auto *first = static_cast<const Stored *>(sources[0]), *second = static_cast<const Stored *>(sources[1]);
    ITX_INDEPENDENT
    for (size_t i = 0; i < elements; ++i)
      to[i] = Type::store(combine<reduction>(Type::load(first[i]), Type::load(second[i])));
    return;
  }
  Value values[blockElements];
  for (size_t begin = 0; begin < elements; begin += blockElements) {
    size_t length = std::min(blockElements, elements - begin);
    auto *first = static_cast<const Stored *>(sources[0]) + begin;
    for (size_t i = 0; i < length; ++i)
      values[i] = Type::load(first[i]);
    for (size_t k = 1; k < count; ++k) {
      auto *source = static_cast<const Stored *>(sources[k]) + begin;
      for (size_t i = 0; i < length; ++i)
        values[i] = combine<reduction>(values[i], Type::load(source[i]));
    }
    for (size_t i = 0; i < length; ++i)
      to[begin + i] = Type::store(values[i]);
  }
}

template <typename Type, Reduction reduction>
void reduceAnywhere(void *destination, const void *const *sources, size_t count, size_t elements) {
  reduce<Type, reduction>(destination, sources, count, elements);
}

#if defined(__x86_64__)
template <typename Type, Reduction reduction>
__attribute__((target("avx2"))) void reduceAvx2(void *destination, const void *const *sources, size_t count,
                                                size_t elements) {
  reduce<Type, reduction>(destination, sources, count, elements);
}
#endif

} // namespace

bool canReduceByAvx2() {
#if defined(__x86_64__)
  static const bool has = std::count(hostFeatures().begin(), hostFeatures().end(), "avx2") != 0;
  return has;
#else
  return false;
#endif
}

template <typename Type> static ReduceFunction functionFor(Reduction reduction) {
#if defined(__x86_64__)
  if (canReduceByAvx2())
    return reduction == Reduction::Maximum ? reduceAvx2<Type, Reduction::Maximum> : reduceAvx2<Type, Reduction::Sum>;
#endif
  return reduction == Reduction::Maximum ? reduceAnywhere<Type, Reduction::Maximum>
                                         : reduceAnywhere<Type, Reduction::Sum>;
}

ReduceFunction reduceFunction(Reduction reduction, itx_dtype dtype) {
  switch (dtype) {
  case ITX_F32:
    return functionFor<PlainElement<float>>(reduction);
  case ITX_F64:
    return functionFor<PlainElement<double>>(reduction);
  case ITX_F16:
    return functionFor<Half>(reduction);
  case ITX_BF16:
    return functionFor<Brain>(reduction);
  case ITX_I32:
    return functionFor<PlainElement<int32_t>>(reduction);
  case ITX_I64:
    return functionFor<PlainElement<int64_t>>(reduction);
  default:
    return nullptr;
  }
}

void widenElements(itx_dtype dtype, float *destination, const void *source, uint64_t elements) {
  auto *from = static_cast<const uint16_t *>(source);
  for (uint64_t i = 0; i < elements; ++i)
    destination[i] = dtype == ITX_F16 ? decodeF16(from[i]) : decodeBf16(from[i]);
}

void narrowElements(itx_dtype dtype, void *destination, const float *source, uint64_t elements) {
  auto *to = static_cast<uint16_t *>(destination);
  for (uint64_t i = 0; i < elements; ++i)
    to[i] = dtype == ITX_F16 ? encodeF16(source[i]) : encodeBf16(source[i]);
}

} // namespace intarsia::runtime
