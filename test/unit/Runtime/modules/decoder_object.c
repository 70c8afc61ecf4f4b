/*===- decoder_object.c - Kernels of the language model for the reference device ------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===------------------------------------------------------------------------------------------------------===*/
#include "test/unit/Runtime/modules/decoder_kernel.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *const itx_reference_imports[] = {0};
EXPORT void *itx_reference_functions[1];

/* step: without packed and tail */
EXPORT void itx_reference_kernel_0(void *const *buffers, const int64_t *sizes) {
  void *const all[9] = {buffers[0], buffers[1], buffers[2], buffers[3], buffers[4], buffers[5], 0, 0, buffers[6]};
  decode(all, sizes);
}

/* tailed */
EXPORT void itx_reference_kernel_1(void *const *buffers, const int64_t *sizes) { decode(buffers, sizes); }
