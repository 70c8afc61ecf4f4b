//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Operands are not zero, as a processor draws less power with zeros and may clock higher. They pass through an empty
// asm, so that no multiply-add is hoisted out of its loop.
//===----------------------------------------------------------------------------------------------------------===//
#include "MultiplyAdds.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace intarsia::probe {

/// Number of independent sums: twice the longest latency (6 cycles) times the widest issue (2), limited by the
/// registers.
constexpr int sums = 12;

#define INTARSIA_SUMS(TYPE, ZERO)                                                                                      \
  TYPE sum[sums];                                                                                                      \
  for (TYPE &of : sum)                                                                                                 \
  of = ZERO
#define INTARSIA_LOOP(BODY, CONSTRAINT)                                                                                \
  for (int64_t turn = 0; turn < turns; ++turn) {                                                                       \
    _Pragma("clang loop unroll(full)") for (int i = 0; i < sums; ++i) sum[i] = BODY;                                   \
    asm volatile("" : "+" CONSTRAINT(a), "+" CONSTRAINT(b));                                                           \
  }                                                                                                                    \
  _Pragma("clang loop unroll(full)") for (int i = 0; i < sums; ++i) asm volatile("" : : CONSTRAINT(sum[i]))

using Floats = float __attribute__((vector_size(16)));

static void baselineF32(int64_t turns) {
  Floats a = {0.5f, 0.25f, 0.75f, 0.3f}, b = {1e-3f, 2e-3f, 3e-3f, 4e-3f};
  INTARSIA_SUMS(Floats, Floats{});
#if defined(__aarch64__)
  INTARSIA_LOOP(vfmaq_f32(sum[i], a, b), "w");
#else
  INTARSIA_LOOP(sum[i] + a * b, "x");
#endif
}

#if defined(__x86_64__)
#define INTARSIA_NEEDS(FEATURES) __attribute__((target(FEATURES))) static void

INTARSIA_NEEDS("avx2,fma") avx2F32(int64_t turns) {
  __m256 a = _mm256_set1_ps(0.7f), b = _mm256_set1_ps(1e-3f);
  INTARSIA_SUMS(__m256, _mm256_setzero_ps());
  INTARSIA_LOOP(_mm256_fmadd_ps(a, b, sum[i]), "x");
}

INTARSIA_NEEDS("avx512f") avx512F32(int64_t turns) {
  __m512 a = _mm512_set1_ps(0.7f), b = _mm512_set1_ps(1e-3f);
  INTARSIA_SUMS(__m512, _mm512_setzero_ps());
  INTARSIA_LOOP(_mm512_fmadd_ps(a, b, sum[i]), "v");
}

INTARSIA_NEEDS("avx512fp16") avx512F16(int64_t turns) {
  __m512h a = _mm512_set1_ph(0.5f16), b = _mm512_set1_ph(0.25f16);
  INTARSIA_SUMS(__m512h, _mm512_setzero_ph());
  INTARSIA_LOOP(_mm512_fmadd_ph(a, b, sum[i]), "v");
}

INTARSIA_NEEDS("avx512bf16") avx512Bf16(int64_t turns) {
  __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f40), b = (__m512bh)_mm512_set1_epi16(0x3a80); // 0.75, 0.001
  INTARSIA_SUMS(__m512, _mm512_setzero_ps());
  INTARSIA_LOOP(_mm512_dpbf16_ps(sum[i], a, b), "v");
}

INTARSIA_NEEDS("avx512vnni") avx512Int8(int64_t turns) {
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  INTARSIA_SUMS(__m512i, _mm512_setzero_si512());
  INTARSIA_LOOP(_mm512_dpbusd_epi32(sum[i], a, b), "v");
}

INTARSIA_NEEDS("avxvnni") avxInt8(int64_t turns) {
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
  INTARSIA_SUMS(__m256i, _mm256_setzero_si256());
  INTARSIA_LOOP(_mm256_dpbusd_avx_epi32(sum[i], a, b), "x");
}

INTARSIA_NEEDS("avx2") avx2Int8(int64_t turns) {
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5), ones = _mm256_set1_epi16(1);
  INTARSIA_SUMS(__m256i, _mm256_setzero_si256());
  for (int64_t turn = 0; turn < turns; ++turn) {
    _Pragma("clang loop unroll(full)") for (int i = 0; i < sums; ++i) {
      __m256i pairs = _mm256_maddubs_epi16(a, b);
      asm volatile("" : "+x"(pairs), "+x"(a), "+x"(b));
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
    }
  }
  for (__m256i &of : sum)
    asm volatile("" : : "x"(of));
}

/// Tiles of 16 rows of 64 bytes: four sums, two of each operand.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t bytesOfRow[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define INTARSIA_TILES(MULTIPLY, BYTE)                                                                                 \
  TileConfiguration configuration;                                                                                     \
  alignas(64) uint8_t tile[1024];                                                                                      \
  for (uint8_t &byte : tile)                                                                                           \
    byte = BYTE;                                                                                                       \
  _tile_loadconfig(&configuration);                                                                                    \
  _tile_zero(0), _tile_zero(1), _tile_zero(2), _tile_zero(3);                                                          \
  _tile_loadd(4, tile, 64), _tile_loadd(5, tile, 64), _tile_loadd(6, tile, 64), _tile_loadd(7, tile, 64);              \
  for (int64_t turn = 0; turn < turns; ++turn)                                                                         \
    MULTIPLY(0, 4, 6), MULTIPLY(1, 5, 6), MULTIPLY(2, 4, 7), MULTIPLY(3, 5, 7);                                        \
  _tile_release()

INTARSIA_NEEDS("amx-tile,amx-bf16") amxBf16(int64_t turns) { INTARSIA_TILES(_tile_dpbf16ps, 0x3a); }
INTARSIA_NEEDS("amx-tile,amx-int8") amxInt8(int64_t turns) { INTARSIA_TILES(_tile_dpbssd, 0x03); }

static constexpr const char *amxBf16Needs[] = {"amx-tile", "amx-bf16"}, *amxInt8Needs[] = {"amx-tile", "amx-int8"},
                            *avx512Needs[] = {"avx512f"}, *avx512F16Needs[] = {"avx512fp16"},
                            *avx512Bf16Needs[] = {"avx512bf16"}, *avx512VnniNeeds[] = {"avx512vnni"},
                            *avxVnniNeeds[] = {"avxvnni"}, *avx2Needs[] = {"avx2"}, *fmaNeeds[] = {"avx2", "fma"};
static const MultiplyAdds table[] = {
    {"f32", "AVX-512 fused multiply-adds", avx512Needs, sums * 16 * 2, avx512F32},
    {"f32", "AVX2 fused multiply-adds", fmaNeeds, sums * 8 * 2, avx2F32},
    {"f32", "SSE multiplications and additions", {}, sums * 4 * 2, baselineF32},
    {"f16", "AVX-512 FP16 fused multiply-adds", avx512F16Needs, sums * 32 * 2, avx512F16},
    {"bf16", "AMX tiles", amxBf16Needs, 4.0 * 16 * 16 * 32 * 2, amxBf16},
    {"bf16", "AVX-512 BF16 dot products", avx512Bf16Needs, sums * 32 * 2, avx512Bf16},
    {"int8", "AMX tiles", amxInt8Needs, 4.0 * 16 * 16 * 64 * 2, amxInt8},
    {"int8", "AVX-512 VNNI dot products", avx512VnniNeeds, sums * 64 * 2, avx512Int8},
    {"int8", "AVX-VNNI dot products", avxVnniNeeds, sums * 32 * 2, avxInt8},
    {"int8", "AVX2 multiply-adds of pairs", avx2Needs, sums * 32 * 2, avx2Int8},
};

bool allowTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of Linux
  static const bool allowed = syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return allowed;
}

#elif defined(__aarch64__)
__attribute__((target("dotprod"))) static void dotInt8(int64_t turns) {
  int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(-5);
  INTARSIA_SUMS(int32x4_t, vdupq_n_s32(0));
  INTARSIA_LOOP(vdotq_s32(sum[i], a, b), "w");
}

__attribute__((target("bf16"))) static void matrixBf16(int64_t turns) {
  bfloat16x8_t a = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f40)), b = vreinterpretq_bf16_u16(vdupq_n_u16(0x3a80));
  INTARSIA_SUMS(float32x4_t, vdupq_n_f32(0));
  INTARSIA_LOOP(vbfmmlaq_f32(sum[i], a, b), "w");
}

static constexpr const char *dotNeeds[] = {"dotprod"}, *bf16Needs[] = {"bf16"};
static const MultiplyAdds table[] = {
    {"f32", "NEON fused multiply-adds", {}, sums * 4 * 2, baselineF32},
    {"bf16", "NEON matrix multiply-adds", bf16Needs, sums * 16 * 2, matrixBf16},
    {"int8", "NEON dot products", dotNeeds, sums * 16 * 2, dotInt8},
};
bool allowTiles() { return false; }

#else
static const MultiplyAdds table[] = {{"f32", "multiplications and additions", {}, sums * 4 * 2, baselineF32}};
bool allowTiles() { return false; }
#endif

llvm::ArrayRef<MultiplyAdds> multiplyAdds() { return table; }

uint64_t sumOf(const uint64_t *words, int64_t count) {
  using Words = uint64_t __attribute__((vector_size(16)));
  Words sum[8] = {};
  for (int64_t i = 0; i < count; i += 16)
    _Pragma("clang loop unroll(full)") for (int j = 0; j < 8; ++j) sum[j] +=
        *reinterpret_cast<const Words *>(words + i + 2 * j);
  Words all = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  return all[0] + all[1];
}

} // namespace intarsia::probe
