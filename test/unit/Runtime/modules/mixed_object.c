/*===- mixed_object.c - The kernel of mixed_device.c for the reference device ---------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===------------------------------------------------------------------------------------------------------===*/
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *const itx_reference_imports[] = {0};
EXPORT void *itx_reference_functions[1];

/* Kernel 1, look_up: rows[i, k] = table[ids[i], k] + offset[k]. sizes: rows. */
EXPORT void itx_reference_kernel_1(void *const *buffers, const int64_t *sizes) {
  const int64_t *ids = buffers[0];
  const float *table = buffers[1], *offset = buffers[2];
  float *rows = buffers[3];
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int k = 0; k < 4; ++k)
      rows[i * 4 + k] = table[ids[i] * 4 + k] + offset[k];
}
