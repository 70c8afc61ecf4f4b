/*===- decoder.c - A language model as the compiler would make it ---------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * decoder_kernel.h says what it computes. A token of `failing` fails the call when all state is written.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"
#include "test/unit/Runtime/modules/decoder_kernel.h"

enum { failing = 13 };

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

static void step_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = 1;
  (void)sizes;
  (void)threads;
}

static void step(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  decode(arguments->buffers, arguments->sizes);
  (void)begin;
  (void)end;
  (void)workspace;
}

/* symbols: tokens, sequences, pages_of_a_sequence, outputs, pages */
static int32_t run(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs, void *keys,
                   void *packed, void *tail) {
  const int64_t output_sizes[2] = {symbols[3], vocabulary};
  const int64_t sizes[3] = {symbols[0], symbols[2], symbols[3]};
  const int64_t *ids = inputs[0];
  const int64_t workspace_bytes[2] = {0, 0};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  void *const buffers[9] = {inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], keys, packed, tail, outputs[0]};
  api->wait(call, api->dispatch(call, 0, 0, 0, buffers, 9, sizes, 3, 0, 0));
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
    .device_count = 1,
    .kernels = kernels,
    .functions = functions,
};
