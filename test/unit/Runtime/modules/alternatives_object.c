/*===- alternatives_object.c - The kernel of alternatives_device.c for the reference device -------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===------------------------------------------------------------------------------------------------------===*/
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *const itx_reference_imports[] = {0};
EXPORT void *itx_reference_functions[1];

/* Kernel 1: out[i] = factors[i % 4] * x[i] + 20. sizes: count. */
EXPORT void itx_reference_kernel_1(void *const *buffers, const int64_t *sizes) {
  const float *x = buffers[0], *factors = buffers[1];
  float *out = buffers[2];
  for (int64_t i = 0; i < sizes[0]; ++i)
    out[i] = factors[i % 4] * x[i] + 20;
}
