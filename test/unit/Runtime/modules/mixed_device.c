/*===- mixed_device.c - A module that runs on several devices -------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Device 0 is the CPU of the host, device 1 a reference device.
 * main:   out[i, k] = (table[ids[i], k] + offset[k]) * factor[k]; the sum on device 1, where table and offset are, the
 *         product on the host.
 * hasty:  out[c, i] = values[i] for 18 copies c by way of as many queues; it returns before any of them is done.
 * there:  out[i, k] = table[ids[i], k] + offset[k], and the same of more; inputs and results are on device 1.
 * wrong:  does what no function may do; which, say the values.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"
#include "test/unit/Runtime/modules/embedded_object.h"

enum { width = 4, devices = 2, copies = 18, memories = devices + 1 };

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

static void scale_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  (void)threads;
}

static void scale(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *rows = arguments->buffers[0], *factor = arguments->buffers[1];
  float *out = arguments->buffers[2];
  for (int64_t i = begin; i < end; ++i)
    for (int k = 0; k < width; ++k)
      out[i * width + k] = rows[i * width + k] * factor[k];
  (void)workspace;
}

static int32_t main_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                         void *const *weights) {
  const int64_t output_sizes[2] = {symbols[0], width};
  int64_t ids_bytes = symbols[0] * (int64_t)sizeof(int64_t), rows_bytes = symbols[0] * width * (int64_t)sizeof(float);
  int64_t rows_offset = (ids_bytes + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
  const int64_t workspace_bytes[memories] = {rows_bytes, 0, rows_offset + rows_bytes};
  void *outputs[1], *workspaces[memories];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  char *there = workspaces[2];
  itx_event event = api->copy(call, 1, 0, there, inputs[0], ids_bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
  void *const look_up[4] = {there, weights[0], weights[2], there + rows_offset};
  event = api->dispatch(call, 1, 1, 1, look_up, 4, symbols, 1, &event, 1);
  event = api->copy(call, 1, 0, workspaces[0], there + rows_offset, rows_bytes, ITX_COPY_SOURCE_ON_DEVICE, &event, 1);
  void *const product[3] = {workspaces[0], weights[1], outputs[0]};
  api->wait(call, api->dispatch(call, 0, 0, 0, product, 3, symbols, 1, &event, 1));
  return 0;
}

static int32_t hasty_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  const int64_t output_sizes[2] = {copies, symbols[0]};
  int64_t bytes = symbols[0] * (int64_t)sizeof(int64_t), workspace_bytes[memories] = {0};
  void *outputs[1], *workspaces[memories];
  workspace_bytes[2] = copies * bytes;
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    char *there = (char *)workspaces[2] + copy * bytes, *out = (char *)outputs[0] + copy * bytes;
    itx_event event = api->copy(call, 1, copy, there, inputs[0], bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
    api->copy(call, 1, copy, out, there, bytes, ITX_COPY_SOURCE_ON_DEVICE, &event, 1);
  }
  (void)weights;
  return 0;
}

static int32_t there_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  const int64_t output_sizes[4] = {symbols[0], width, symbols[0], width};
  int64_t workspace_bytes[memories] = {0};
  void *outputs[2], *workspaces[memories];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  for (uint32_t i = 0; i < 2; ++i) {
    void *const look_up[4] = {inputs[i], weights[0], weights[2], outputs[i]};
    api->dispatch(call, i, 1, 1, look_up, 4, symbols, 1, 0, 0);
  }
  return 0;
}

static int32_t wrong_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  int64_t what = *(const int64_t *)inputs[0], workspace_bytes[memories] = {0};
  void *outputs[1], *workspaces[memories];
  workspace_bytes[1] = what == 0;
  workspace_bytes[2] = what == 1 ? -1 : what == 2 ? INT64_C(1) << 60 : 64;
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  itx_event event = what == 3 ? (itx_event)200 << 56 | 1 : 0;
  api->copy(call, what == 4 ? devices : 1, 0, workspaces[2], inputs[0], what == 5 ? -8 : 8,
            what == 6 ? 8 : ITX_COPY_DESTINATION_ON_DEVICE, &event, 1);
  api->dispatch(call, 0, what == 7 ? 2 : 0, 0, outputs, 1, symbols, 1, 0, 0);
  (void)weights;
  return 0;
}

static const itx_kernel_entry kernels[2] = {{scale_plan, scale}, {0, 0}};
static const itx_function_entry functions[4] = {
    {.call = main_host, .size_count = 1, .input_count = 1, .range_count = 1, .output_count = 1, .output_size_count = 2},
    {.call = hasty_host, .size_count = 1, .input_count = 1, .output_count = 1, .output_size_count = 2},
    {.call = there_host, .size_count = 1, .input_count = 2, .output_count = 2, .output_size_count = 4},
    {.call = wrong_host, .size_count = 1, .input_count = 1, .output_count = 1, .output_size_count = 1},
};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .kernel_count = 2,
    .function_count = 4,
    .weight_count = 3,
    .label_count = 2,
    .device_count = devices,
    .object_count = 1,
    .kernels = kernels,
    .functions = functions,
    .objects = embedded_object,
};
