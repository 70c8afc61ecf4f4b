//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Loops that are compiled for several instruction sets, of which the processor that runs them chooses one.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_INSTRUCTIONSETS_H
#define INTARSIA_LIB_SUPPORT_INSTRUCTIONSETS_H

#include <cstring>

#define INTARSIA_INLINE __attribute__((always_inline)) static inline

/// Defines `name` as `name##Here`, an INTARSIA_INLINE, for the processor that runs it: AVX-512, AVX2 or any. The
/// results have the same bits if vectors are of one length in all of them and FP_CONTRACT is off.
#ifdef __x86_64__
#define INTARSIA_FOR_PROCESSORS(result, name, parameters, arguments)                                                   \
  __attribute__((target("avx512f"))) static result name##Avx512 parameters { return name##Here arguments; }            \
  __attribute__((target("avx2"))) static result name##Avx2 parameters { return name##Here arguments; }                 \
  static result name parameters {                                                                                      \
    if (__builtin_cpu_supports("avx512f"))                                                                             \
      return name##Avx512 arguments;                                                                                   \
    if (__builtin_cpu_supports("avx2"))                                                                                \
      return name##Avx2 arguments;                                                                                     \
    return name##Here arguments;                                                                                       \
  }
#else
#define INTARSIA_FOR_PROCESSORS(result, name, parameters, arguments)                                                   \
  static result name parameters { return name##Here arguments; }
#endif

namespace intarsia {

template <typename Vector, typename Element> INTARSIA_INLINE Vector load(const Element *from) {
  Vector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename Vector, typename Element> INTARSIA_INLINE void store(Vector value, Element *to) {
  std::memcpy(to, &value, sizeof(value));
}

} // namespace intarsia

#endif
