/*
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The formula of GPU kernels for bench/fit_gpu_kernels.py, through ctypes: rows of measured tables go in, predictions
 * for any figures come out. Not installed; no other use is meant.
 */
#ifndef INTARSIA_LIB_COST_GPUFIT_H
#define INTARSIA_LIB_COST_GPUFIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One row. `device` is a name of the catalogue; `peak` the element type whose peak counts; `type` that of the table of
 * figures; kinds are in the order of GpuKernelKind, sizes as in GpuKernelShape. */
typedef struct {
  const char *device, *peak, *type;
  int32_t kind, causal;
  double batch, rows, columns, depth, heads, key_heads, window, experts, per_token;
  double input_bytes, weight_bytes, output_bytes, warm_weights, cached_depth;
} itx_gpu_row;

__attribute__((visibility("default"))) int32_t itx_gpu_figures(void);
__attribute__((visibility("default"))) const char *itx_gpu_figure(int32_t index);
/* Reads rows into a table that predictions are made of; null and a message if one is wrong. */
__attribute__((visibility("default"))) void *itx_gpu_table(const itx_gpu_row *rows, int64_t count, char *message,
                                                           int64_t size);
__attribute__((visibility("default"))) void itx_gpu_free(void *table);
/* Microseconds of each of `count` rows by their index, with `figures`, or with those of the program where it is null.
 */
__attribute__((visibility("default"))) void itx_gpu_predict(const void *table, const int64_t *rows, int64_t count,
                                                            const double *figures, double *microseconds);
/* The bound of each row by the catalogue alone: max(flops / peak, bytes / bandwidth). */
__attribute__((visibility("default"))) void itx_gpu_roofline(const void *table, double *microseconds);
/* Microseconds of all-reduces of `bytes` on each of `devices` of one node, with `figures` in the order of
 * AllReduceFigures, or with those of the program where it is null; not 0 if the catalogue lacks the device or its link.
 */
__attribute__((visibility("default"))) int32_t itx_gpu_all_reduce(const char *device, const double *devices,
                                                                  const double *bytes, int64_t count,
                                                                  const double *figures, double *microseconds);

#ifdef __cplusplus
}
#endif

#endif
