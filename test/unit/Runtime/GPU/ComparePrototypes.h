//===- ComparePrototypes.h - Whether two prototypes are one to a caller ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_GPU_COMPAREPROTOTYPES_H
#define INTARSIA_TEST_UNIT_RUNTIME_GPU_COMPAREPROTOTYPES_H

#include <type_traits>

namespace intarsia::testing {

/// Returns true if values of both types are passed in the same way and mean the same: numbers of one size and sign,
/// enums of one size, pointers to such. What a pointer to void or to a structure without a definition points to is not
/// compared; structures must have one size, and may be compared by their members elsewhere.
template <typename Ours, typename Theirs> consteval bool isSameToCallers() {
  using Left = std::remove_cv_t<Ours>;
  using Right = std::remove_cv_t<Theirs>;
  if constexpr (std::is_pointer_v<Left> && std::is_pointer_v<Right>) {
    using LeftTarget = std::remove_cv_t<std::remove_pointer_t<Left>>;
    using RightTarget = std::remove_cv_t<std::remove_pointer_t<Right>>;
    if constexpr (std::is_void_v<LeftTarget> || std::is_void_v<RightTarget>)
      return !std::is_pointer_v<LeftTarget> && !std::is_pointer_v<RightTarget> && !std::is_arithmetic_v<LeftTarget> &&
             !std::is_arithmetic_v<RightTarget>;
    else
      return isSameToCallers<LeftTarget, RightTarget>();
  } else if constexpr (std::is_integral_v<Left> && std::is_integral_v<Right>) {
    return sizeof(Left) == sizeof(Right) && std::is_signed_v<Left> == std::is_signed_v<Right>;
  } else if constexpr ((std::is_enum_v<Left> || std::is_integral_v<Left>) && std::is_enum_v<Right>) {
    return sizeof(Left) == sizeof(Right);
  } else if constexpr (std::is_class_v<Left> && std::is_class_v<Right>) {
    return sizeof(Left) == sizeof(Right) && alignof(Left) == alignof(Right);
  } else {
    return std::is_same_v<Left, Right>;
  }
}

template <typename Ours, typename Theirs> struct Prototypes;
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
struct Prototypes<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static consteval bool isSame() {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs))
      return false;
    else
      return isSameToCallers<OurResult, TheirResult>() && (isSameToCallers<Ours, Theirs>() && ...);
  }
};

// What is not the same must be found.
struct Opaque;
struct Small {
  int number;
};
struct Large {
  long number;
};
enum Choice { first, second };
static_assert(isSameToCallers<unsigned long, unsigned long long>() && isSameToCallers<int, Choice>());
static_assert(isSameToCallers<void **, Opaque **>() && isSameToCallers<const void *, Opaque *>());
static_assert(!isSameToCallers<int, unsigned>() && !isSameToCallers<int, long>() && !isSameToCallers<void *, int>());
static_assert(!isSameToCallers<int *, unsigned *>() && !isSameToCallers<void *, int *>());
static_assert(!isSameToCallers<void **, void *>() && !isSameToCallers<Small *, Large *>());
static_assert(!Prototypes<int (*)(int), int (*)(int, int)>::isSame());
static_assert(!Prototypes<int (*)(int), int (*)(float)>::isSame());

} // namespace intarsia::testing

#endif
