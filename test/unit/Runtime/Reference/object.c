/*===- object.c - Kernels of the reference device, written by hand ----------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * An object as the compiler's target writes them. The artifact has 7 kernels; kernel 1 is another device's.
 *===------------------------------------------------------------------------------------------------------===*/
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *const itx_reference_imports[] = {"malloc", "free", "expf", "cbrt", NULL};
EXPORT void *itx_reference_functions[4];

static void *allocate(size_t bytes) { return ((void *(*)(size_t))itx_reference_functions[0])(bytes); }
static void release(void *data) { ((void (*)(void *))itx_reference_functions[1])(data); }

/* z = x + y, sizes[0] floats. */
EXPORT void itx_reference_kernel_0(void *const *buffers, const int64_t *sizes) {
  const float *x = buffers[0], *y = buffers[1];
  float *z = buffers[2];
  for (int64_t i = 0; i < sizes[0]; ++i)
    z[i] = x[i] + y[i];
}

/* y = exp(x), sizes[0] floats, by way of a temporary. */
EXPORT void itx_reference_kernel_2(void *const *buffers, const int64_t *sizes) {
  float (*exponential)(float) = (float (*)(float))itx_reference_functions[2];
  float *temporary = allocate(sizes[0] * sizeof(float));
  for (int64_t i = 0; i < sizes[0]; ++i)
    temporary[i] = exponential(((const float *)buffers[0])[i]);
  memcpy(buffers[1], temporary, sizes[0] * sizeof(float));
  release(temporary);
}

/* Makes sizes[0] temporaries of sizes[1] bytes and counts them; frees those that sizes[2] says: 0 none, 1 each at once,
 * 2 all, the oldest first. */
EXPORT void itx_reference_kernel_3(void *const *buffers, const int64_t *sizes) {
  int64_t *count = buffers[0];
  char *blocks[64];
  for (*count = 0; *count < sizes[0]; ++*count) {
    char *block = allocate(sizes[1]);
    memset(block, 1, sizes[1]);
    blocks[*count % 64] = block;
    if (sizes[2] == 1)
      release(block);
  }
  for (int64_t i = 0; sizes[2] == 2 && i < sizes[0]; ++i)
    release(blocks[i]);
  release(NULL);
}

/* Frees what it has not allocated. */
EXPORT void itx_reference_kernel_4(void *const *buffers, const int64_t *sizes) { release(buffers[0]); }

/* Counts its launches, in memory of the object. */
EXPORT void itx_reference_kernel_5(void *const *buffers, const int64_t *sizes) {
  static int64_t launches;
  *(int64_t *)buffers[0] = ++launches;
}

/* x = x * sizes[0] + sizes[1], one uint64_t. */
EXPORT void itx_reference_kernel_6(void *const *buffers, const int64_t *sizes) {
  uint64_t *x = buffers[0];
  *x = *x * (uint64_t)sizes[0] + (uint64_t)sizes[1];
}
