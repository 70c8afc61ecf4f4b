/*===- sample.c - A module as the compiler would make it ------------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * rows:  out[b, s, k] = table[ids[b, s], k] * mask[b, s] * scale[k]
 * total: out[b] = sum over s and k of rows
 * Two variants: the first adds 1000 to every row, so that tests see which one runs.
 * A mask of `held` holds the call: the kernel writes `arrived` there, and waits until the test writes something else.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"

enum { width = 4, held = -7, arrived = -8 };

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

static void rows_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0] * sizes[1];
  (void)threads;
}

static void rows(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, float bias) {
  const int64_t *ids = arguments->buffers[0];
  int64_t *mask = arguments->buffers[1];
  const float *table = arguments->buffers[2], *scale = arguments->buffers[3];
  float *out = arguments->buffers[4];
  for (int64_t i = begin; i < end; ++i)
    if (__atomic_load_n(&mask[i], __ATOMIC_ACQUIRE) == held) {
      __atomic_store_n(&mask[i], arrived, __ATOMIC_RELEASE);
      while (__atomic_load_n(&mask[i], __ATOMIC_ACQUIRE) == arrived)
        ;
    }
  for (int64_t i = begin; i < end; ++i)
    for (int k = 0; k < width; ++k)
      out[i * width + k] = table[ids[i] * width + k] * (float)mask[i] * scale[k] + bias;
}

static void rows_plain(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  rows(arguments, begin, end, 0);
  (void)workspace;
}

static void rows_marked(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  rows(arguments, begin, end, 1000);
  (void)workspace;
}

/* Every tile adds into shared memory in integers; the last one writes the result. Uses the workspace too. */
static void total_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0] * sizes[1];
  plan[ITX_PLAN_WORKSPACE_BYTES] = width * sizeof(float);
  plan[ITX_PLAN_SHARED_BYTES] = plan[ITX_PLAN_ZEROED_BYTES] = 2 * sizes[0] * sizeof(int64_t);
  (void)threads;
}

static void total(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *in = arguments->buffers[0];
  float *out = arguments->buffers[1], *row = workspace;
  int64_t sequence = arguments->sizes[1], *sums = arguments->shared, *counts = sums + arguments->sizes[0];
  for (int64_t i = begin; i < end; ++i) {
    int64_t b = i / sequence, sum = 0;
    for (int k = 0; k < width; ++k)
      row[k] = in[i * width + k];
    for (int k = 0; k < width; ++k)
      sum += (int64_t)(row[k] * 256.0f);
    __atomic_fetch_add(&sums[b], sum, __ATOMIC_ACQ_REL);
    if (__atomic_add_fetch(&counts[b], 1, __ATOMIC_ACQ_REL) == sequence)
      out[b] = (float)__atomic_load_n(&sums[b], __ATOMIC_ACQUIRE) / 256.0f;
  }
}

static int32_t rows_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                         void *const *weights) {
  const int64_t output_sizes[3] = {symbols[0], symbols[1], width};
  const int64_t workspace_bytes[2] = {0, 0};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  void *const buffers[5] = {inputs[0], inputs[1], weights[0], inputs[2], outputs[0]};
  api->wait(call, api->dispatch(call, 0, 0, 0, buffers, 5, symbols, 2, 0, 0));
  return 0;
}

static int32_t total_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  int64_t bytes = symbols[0] * symbols[1] * width * (int64_t)sizeof(float);
  if (api->check(call, 0, symbols[0] * symbols[1], 4096) || api->check(call, 1, 2, symbols[0] * symbols[1]) ||
      api->check(call, 2, symbols[0] + symbols[1] - symbols[0], symbols[1]))
    return 1;
  const int64_t workspace_bytes[2] = {2 * bytes, 0};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  char *workspace = workspaces[0];
  void *const first[5] = {inputs[0], inputs[1], weights[0], inputs[2], workspace};
  itx_event event = api->dispatch(call, 0, 0, 0, first, 5, symbols, 2, 0, 0);
  event = api->copy(call, 0, 0, workspace + bytes, workspace, bytes, 0, &event, 1);
  void *const second[2] = {workspace + bytes, outputs[0]};
  api->wait(call, api->dispatch(call, 0, 1, 1, second, 2, symbols, 2, &event, 1));
  return 0;
}

static const itx_kernel_entry kernels[2][2] = {
    {{rows_plan, rows_marked}, {total_plan, total}},
    {{rows_plan, rows_plain}, {total_plan, total}},
};
static const itx_function_entry functions[2] = {
    {.call = rows_host, .size_count = 2, .input_count = 3, .range_count = 1, .output_count = 1, .output_size_count = 3},
    {.call = total_host,
     .size_count = 2,
     .check_count = 3,
     .input_count = 3,
     .range_count = 1,
     .output_count = 1,
     .output_size_count = 1},
};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 2,
    .kernel_count = 2,
    .function_count = 2,
    .weight_count = 1,
    .label_count = 2,
    .device_count = 1,
    .kernels = &kernels[0][0],
    .functions = functions,
};
