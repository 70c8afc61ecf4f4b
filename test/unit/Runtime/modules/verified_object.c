/*===- verified_object.c - All kernels of verified_device.c for the reference device --------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===------------------------------------------------------------------------------------------------------===*/
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *const itx_reference_imports[] = {0};
EXPORT void *itx_reference_functions[1];

/* scale: x, factors -> scaled, which. sizes: count. */
EXPORT void itx_reference_kernel_0(void *const *buffers, const int64_t *sizes) {
  const float *x = buffers[0], *factors = buffers[1];
  float *scaled = buffers[2];
  int64_t *which = buffers[3];
  for (int64_t i = 0; i < sizes[0]; ++i) {
    scaled[i] = factors[i % 4] * x[i];
    which[i] = i % 4;
  }
}

/* faulty: what it should be. */
EXPORT void itx_reference_kernel_1(void *const *buffers, const int64_t *sizes) {
  itx_reference_kernel_0(buffers, sizes);
}

/* accumulate: total, x -> total, result. */
EXPORT void itx_reference_kernel_2(void *const *buffers, const int64_t *sizes) {
  const float *x = buffers[1];
  float *total = buffers[2], *result = buffers[3];
  for (int64_t i = 0; i < sizes[0]; ++i)
    result[i] = total[i] += x[i];
}

/* scale_there: x, factors -> scaled. */
EXPORT void itx_reference_kernel_3(void *const *buffers, const int64_t *sizes) {
  const float *x = buffers[0], *factors = buffers[1];
  float *scaled = buffers[2];
  for (int64_t i = 0; i < sizes[0]; ++i)
    scaled[i] = factors[i % 4] * x[i];
}
