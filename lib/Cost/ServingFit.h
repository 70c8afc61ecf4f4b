/*
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The cost formula for bench/fit_serving.py, through ctypes: rows of measured tables go in, predictions for any figures
 * come out. Not installed; no other use is meant.
 */
#ifndef INTARSIA_LIB_COST_SERVINGFIT_H
#define INTARSIA_LIB_COST_SERVINGFIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ITX_SERVING_DECODE = 0, /* decodeStep at input + output / 2 tokens */
  ITX_SERVING_SHARED = 1, /* sharedStep */
  ITX_SERVING_FIRST = 2   /* firstToken of `prompts` prompts */
};

/* One row. Names are those of the catalogue; `attention`, `output` (the last projection of attention) and `compute` may
 * be empty for the usual precision. */
typedef struct {
  const char *model, *device, *engine, *weights, *attention, *output, *cache, *compute;
  int32_t tensor, attention_data, expert;
  int32_t kind, one_phase, slow_build, power_capped, burst;
  int32_t operators; /* times of measured operators, not shares of peaks; experts are dispersed by 0.5 */
  double tokens_per_step, batch, input_tokens, output_tokens, prompts, concurrency, workers;
} itx_serving_row;

__attribute__((visibility("default"))) int32_t itx_serving_figures(void);
__attribute__((visibility("default"))) const char *itx_serving_figure(int32_t index);
/* Reads rows into a table that predictions are made of; null and a message if one is wrong. `batch` is bounded by what
 * fits, as the engine bounds it. */
__attribute__((visibility("default"))) void *itx_serving_table(const itx_serving_row *rows, int64_t count,
                                                               char *message, int64_t size);
__attribute__((visibility("default"))) void itx_serving_free(void *table);
/* Milliseconds of the `count` rows at the indices `which`, with `figures`, or with those of the program where it is
 * null.
 */
__attribute__((visibility("default"))) void itx_serving_predict(const void *table, const double *figures,
                                                                const int64_t *which, int64_t count,
                                                                double *milliseconds);

#ifdef __cplusplus
}
#endif

#endif
