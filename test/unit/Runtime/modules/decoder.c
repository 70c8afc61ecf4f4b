/*===- decoder.c - A language model as the compiler would make it ---------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * logits[o, v] = (v + 1) * (sum over j of (token[j] + 1) * (j + 1)^2) mod 97, j up to the token's position in its
 * sequence. Pages hold four tokens each.
 * step:   keys[pages, 4] hold token + 1.
 * tailed: as well, full pages are in codes[pages, 2, 4], what is not full in tail[sequences, 4], as a cache does whose
 *         pages are quantized; where both do not tell the same as keys, logits are -1.
 * A token of `failing` fails the call when all state is written.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"

enum { page = 4, vocabulary = 16, failing = 13 };

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

static void step_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = 1;
  (void)sizes;
  (void)threads;
}

/* sizes: tokens, pages_of_a_sequence, outputs */
static void step(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const int64_t *ids = arguments->buffers[0], *positions = arguments->buffers[1], *sequences = arguments->buffers[2];
  const int64_t *table = arguments->buffers[3], *outputs = arguments->buffers[4];
  int64_t *keys = arguments->buffers[5], columns = arguments->sizes[1];
  int16_t *codes = arguments->buffers[6];
  float *tail = arguments->buffers[7], *logits = arguments->buffers[8];
  (void)begin;
  (void)end;
  (void)workspace;
  for (int64_t t = 0; t < arguments->sizes[0]; ++t) {
    const int64_t *row = table + sequences[t] * columns;
    int64_t position = positions[t], own = row[position / page], slot = position % page, sum = 0, other = 0;
    float *rest = tail ? tail + sequences[t] * page : 0;
    keys[own * page + slot] = ids[t] + 1;
    if (rest) {
      for (int k = 0; slot == 0 && k < page; ++k)
        rest[k] = -5;
      rest[slot] = (float)(ids[t] + 1);
    }
    for (int k = 0; rest && slot == page - 1 && k < page; ++k)
      codes[(own * 2 + 1) * page + k] = (int16_t)rest[k];
    for (int64_t j = 0; j <= position; ++j) {
      int64_t of = row[j / page];
      sum += keys[of * page + j % page] * (j + 1) * (j + 1);
      if (rest)
        other += (j / page < (position + 1) / page ? codes[(of * 2 + 1) * page + j % page] : (int64_t)rest[j % page]) *
                 (j + 1) * (j + 1);
    }
    for (int64_t o = 0; o < arguments->sizes[2]; ++o)
      for (int64_t v = 0; outputs[o] == t && v < vocabulary; ++v)
        logits[o * vocabulary + v] = rest && other != sum ? -1.0f : (float)((v + 1) * sum % 97);
  }
}

/* symbols: tokens, sequences, pages_of_a_sequence, outputs, pages */
static int32_t run(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs, void *keys,
                   void *codes, void *tail) {
  const int64_t output_sizes[2] = {symbols[3], vocabulary};
  const int64_t sizes[3] = {symbols[0], symbols[2], symbols[3]};
  const int64_t *ids = inputs[0];
  void *outputs[1];
  if (!api->prepare(call, 0, output_sizes, outputs))
    return 1;
  void *const buffers[9] = {inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], keys, codes, tail, outputs[0]};
  api->wait(call, api->dispatch(call, 0, 0, 0, buffers, sizes, 0, 0));
  for (int64_t t = 0; t < symbols[0]; ++t)
    if (ids[t] == failing && api->check(call, 0, symbols[0], 0))
      return 1;
  return 0;
}

static int32_t step_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                         void *const *weights) {
  (void)weights;
  return run(api, call, symbols, inputs, inputs[5], 0, 0);
}

static int32_t tailed_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                           void *const *weights) {
  (void)weights;
  return run(api, call, symbols, inputs + 2, inputs[7], inputs[1], inputs[0]);
}

static const itx_kernel_entry kernels[1] = {{step_plan, step}};
static const itx_function_entry functions[2] = {
    {.call = step_host,
     .size_count = 5,
     .check_count = 1,
     .input_count = 6,
     .range_count = 5,
     .below_count = 4,
     .output_count = 1,
     .output_size_count = 2},
    {.call = tailed_host,
     .size_count = 5,
     .check_count = 1,
     .input_count = 8,
     .range_count = 5,
     .below_count = 4,
     .output_count = 1,
     .output_size_count = 2},
};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .kernel_count = 1,
    .function_count = 2,
    .label_count = 1,
    .kernels = kernels,
    .functions = functions,
};
