/*===- object.c - Kernels of the emulated GPU, written by hand --------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Code for the host as the compiler's GPU targets write it. EmulatedDeviceTest.cpp puts it into objects of GPUs.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/emulated_abi.h"

#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("protected")))

#ifdef ITX_TEST_CHECKED
#define CHECK_IMPORTS "itx_emulated_load_check", "itx_emulated_store_check",
#else
#define CHECK_IMPORTS
#endif

__attribute__((visibility("default"))) const char *const itx_emulated_imports[] = {"itx_emulated_thread_id",
                                                                                   "itx_emulated_block_id",
                                                                                   "itx_emulated_block_dim",
                                                                                   "itx_emulated_barrier",
                                                                                   "itx_emulated_shared",
                                                                                   "itx_emulated_warp_size",
                                                                                   "cbrtf",
                                                                                   CHECK_IMPORTS NULL};
__attribute__((visibility("default"))) void *itx_emulated_functions[9];

static int32_t thread_id(void) { return ((int32_t (*)(int32_t))itx_emulated_functions[0])(0); }
static int32_t block_id(void) { return ((int32_t (*)(int32_t))itx_emulated_functions[1])(0); }
static int32_t block_dim(void) { return ((int32_t (*)(int32_t))itx_emulated_functions[2])(0); }
static void barrier(void) { ((void (*)(void))itx_emulated_functions[3])(); }
static void *shared(void) { return ((void *(*)(void))itx_emulated_functions[4])(); }
static int32_t warp_size(void) { return ((int32_t (*)(void))itx_emulated_functions[5])(); }
static float cube_root(float x) { return ((float (*)(float))itx_emulated_functions[6])(x); }

static float load(const float *address, int32_t space) {
#ifdef ITX_TEST_CHECKED
  ((void (*)(const void *, int64_t, int32_t))itx_emulated_functions[7])(address, 4, space);
#endif
  return *address;
}
static void store(float *address, float value, int32_t space) {
#ifdef ITX_TEST_CHECKED
  ((void (*)(void *, int64_t, int32_t))itx_emulated_functions[8])(address, 4, space);
#endif
  *address = value;
}

/* Added to each result of `add`. */
static const float zeros[2] = {0, 0};

/* z = cbrt(x) + y, n floats. */
EXPORT void add(const float *x, const float *y, float *z, int64_t n, void *scratch) {
  int64_t i = (int64_t)block_id() * block_dim() + thread_id();
  if (i < n)
    store(z + i,
          cube_root(load(x + i, ITX_EMULATED_GLOBAL)) + load(y + i, ITX_EMULATED_GLOBAL) +
              load(zeros + i % 2, ITX_EMULATED_CONSTANT),
          ITX_EMULATED_GLOBAL);
}

/* Writes the sum of each block's part of x, n floats, to the scratch. */
EXPORT void sum_blocks(const float *x, float *sum, int64_t n, float *scratch) {
  float *values = shared();
  int64_t i = (int64_t)block_id() * block_dim() + thread_id();
  store(values + thread_id(), i < n ? load(x + i, ITX_EMULATED_GLOBAL) : 0, ITX_EMULATED_SHARED);
  for (int32_t half = block_dim() / 2; half > 0; half /= 2) {
    barrier();
    if (thread_id() < half)
      store(values + thread_id(),
            load(values + thread_id(), ITX_EMULATED_SHARED) + load(values + thread_id() + half, ITX_EMULATED_SHARED),
            ITX_EMULATED_SHARED);
  }
  if (thread_id() == 0)
    store(scratch + block_id(), load(values, ITX_EMULATED_SHARED), ITX_EMULATED_GLOBAL);
}

/* Adds up what sum_blocks has written, for blocks of 64 threads. */
EXPORT void sum_sums(const float *x, float *sum, int64_t n, float *scratch) {
  float total = 0;
  for (int64_t i = 0; i < (n + 63) / 64; ++i)
    total += load(scratch + i, ITX_EMULATED_GLOBAL);
  store(sum, total, ITX_EMULATED_GLOBAL);
}

/* Writes the warp size, what the first bytes of scratch and shared memory are, and where the dynamic ones end. */
EXPORT void describe(float *out, int64_t n, float *scratch) {
  float *values = shared();
  out[0] = (float)warp_size();
  out[1] = scratch[0];
  out[2] = values[0];
  out[3] = values[n - 1];
  memset(scratch, 0, 4);
}

/* Reads a value that another thread writes, with no barrier between. */
EXPORT void race(float *out, int64_t n, void *scratch) {
  float *values = shared();
  values[thread_id()] = (float)thread_id();
  out[thread_id()] = values[n - 1 - thread_id()];
}
