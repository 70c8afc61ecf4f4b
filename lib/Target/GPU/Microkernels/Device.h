//===- Device.h - What microkernels need of a GPU ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Microkernels are C++ without headers of any vendor. clang compiles them to LLVM IR for a GPU and leaves it
// unoptimized: the compiler inlines them into its kernels, where sizes and formats are constants, and only then unrolls
// loops and drops branches.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_DEVICE_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_DEVICE_H

using int64_t = long;
using uint64_t = unsigned long;
using int32_t = int;
using uint32_t = unsigned;
using uint16_t = unsigned short;
using uint8_t = unsigned char;
using int8_t = signed char;

// Address spaces of LLVM for both vendors.
#define ITX_GLOBAL __attribute__((address_space(1)))
#define ITX_SHARED __attribute__((address_space(3)))
/// A function that kernels call by its name.
#define ITX_MICROKERNEL extern "C"

using Global = ITX_GLOBAL uint8_t *;
using Shared = ITX_SHARED float *;

template <typename T, int count> using Vector = T __attribute__((ext_vector_type(count)));

/// The score of a key that is not seen.
constexpr float lowest = -__builtin_inff();

#if defined(__NVPTX__)

constexpr int warpSize = 32;

inline int threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
inline int blockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
inline int gridSize() { return __nvvm_read_ptx_sreg_nctaid_x(); }
inline void blockBarrier() { __syncthreads(); }
inline void warpBarrier() { __nvvm_bar_warp_sync(-1); }

constexpr bool copiesAsynchronously = true;
/// Begins to copy 16 bytes to shared memory, `bytes` of them from global memory, the others zeros.
inline void beginCopy(ITX_SHARED void *to, ITX_GLOBAL const void *from, int bytes) {
  __nvvm_cp_async_cg_shared_global_16(to, from, bytes);
}
/// Waits until all that this thread began to copy is there.
inline void endCopies() { __nvvm_cp_async_wait_all(); }

/// 2^x: at most 2 units of the last place off (PTX ISA, "ex2"). Subnormal results are zero.
inline float exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }

/// Returns the value of the lane whose number differs in the bits of `mask`.
template <int mask> inline float exchange(float value) {
  return __builtin_bit_cast(float, __nvvm_shfl_sync_bfly_i32(-1, __builtin_bit_cast(int, value), mask, 31));
}

#else

#if defined(__GFX9__)
constexpr int warpSize = 64;
#else
constexpr int warpSize = 32;
#endif

inline int threadIndex() { return __builtin_amdgcn_workitem_id_x(); }
inline int blockIndex() { return __builtin_amdgcn_workgroup_id_x(); }
inline void blockBarrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
inline void warpBarrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

constexpr bool copiesAsynchronously = false;
inline void beginCopy(ITX_SHARED void *, ITX_GLOBAL const void *, int) {}
inline void endCopies() {}

/// 2^x: at most 1 unit of the last place off (AMD's ISA documents, V_EXP_F32). Subnormal results are zero.
inline float exp2(float x) { return __builtin_amdgcn_exp2f(x); }

/// Returns the value of the lane whose number differs in the bits of `mask`.
template <int mask> inline float exchange(float value) {
  int bits = __builtin_bit_cast(int, value);
  if constexpr (mask < 32) {
    // Bit-masked mode: and 31, or 0, exclusive or with the mask (CDNA 3 ISA, 11.3).
    bits = __builtin_amdgcn_ds_swizzle(bits, mask << 10 | 31);
  } else {
    int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    bits = __builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, bits);
  }
  return __builtin_bit_cast(float, bits);
}

#endif

inline float larger(float a, float b) { return __builtin_fmaxf(a, b); }
inline float smaller(float a, float b) { return __builtin_fminf(a, b); }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/// Combines the values of lanes whose numbers differ in the bits [from, to), powers of two.
template <typename Combine> inline float combineLanes(float value, int64_t from, int64_t to, Combine combine) {
  if (from <= 1 && to > 1)
    value = combine(value, exchange<1>(value));
  if (from <= 2 && to > 2)
    value = combine(value, exchange<2>(value));
  if (from <= 4 && to > 4)
    value = combine(value, exchange<4>(value));
  if (from <= 8 && to > 8)
    value = combine(value, exchange<8>(value));
  if (from <= 16 && to > 16)
    value = combine(value, exchange<16>(value));
  if constexpr (warpSize == 64)
    if (from <= 32 && to > 32)
      value = combine(value, exchange<32>(value));
  return value;
}
inline float sumLanes(float value, int64_t from, int64_t to) {
  return combineLanes(value, from, to, [](float a, float b) { return a + b; });
}
inline float maximumOfLanes(float value, int64_t from, int64_t to) {
  return combineLanes(value, from, to, [](float a, float b) { return larger(a, b); });
}

constexpr float log2e = 1.44269504f;

/// The hyperbolic tangent: at most 1.1e-7 off where exp2 is exactly rounded, 2.3e-7 where it is two units off.
inline float tanh(float x) {
  float t = exp2(-2 * log2e * __builtin_fabsf(x));
  return __builtin_copysignf((1 - t) / (1 + t), x);
}

#endif
