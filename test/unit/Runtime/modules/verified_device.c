/*===- verified_device.c - A module whose kernels can be verified ---------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Device 0 is the CPU of the host, device 1 a reference device, whose object has all kernels.
 * scale:       scaled[i] = factors[i % 4] * x[i] and which[i] = i % 4 on the CPU, in one kernel.
 * faulty:      the same by a kernel whose scaled[5] is wrong if x[0] is 1, and whose which[7] is wrong if it is 2.
 * accumulate:  total[i] += x[i] in place on the CPU, and the new total as a result.
 * there:       scaled[i] as above on the reference device.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"
#include "test/unit/Runtime/modules/embedded_object.h"

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

static void plan_tiles(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  (void)threads;
}

static void scale(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *x = arguments->buffers[0], *factors = arguments->buffers[1];
  float *scaled = arguments->buffers[2];
  int64_t *which = arguments->buffers[3];
  for (int64_t i = begin; i < end; ++i) {
    scaled[i] = factors[i % 4] * x[i];
    which[i] = i % 4;
  }
  (void)workspace;
}

static void scale_wrongly(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *x = arguments->buffers[0];
  float *scaled = arguments->buffers[2];
  int64_t *which = arguments->buffers[3];
  scale(arguments, begin, end, workspace);
  if (begin <= 5 && 5 < end && x[0] == 1)
    scaled[5] += 0.25f;
  if (begin <= 7 && 7 < end && x[0] == 2)
    which[7] += 1;
}

static void accumulate(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *x = arguments->buffers[1];
  float *total = arguments->buffers[2], *result = arguments->buffers[3];
  for (int64_t i = begin; i < end; ++i)
    result[i] = total[i] += x[i];
  (void)workspace;
}

static int32_t scale_by(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                        void *const *weights, uint32_t kernel) {
  const int64_t output_sizes[2] = {symbols[0], symbols[0]}, workspace_bytes[3] = {0};
  void *outputs[2], *workspaces[3];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  void *const buffers[4] = {inputs[0], weights[0], outputs[0], outputs[1]};
  api->wait(call, api->dispatch(call, 0, kernel, kernel, buffers, 4, symbols, 1, 0, 0));
  return 0;
}

static int32_t scale_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  return scale_by(api, call, symbols, inputs, weights, 0);
}
static int32_t faulty_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                           void *const *weights) {
  return scale_by(api, call, symbols, inputs, weights, 1);
}

static int32_t accumulate_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                               void *const *weights) {
  const int64_t workspace_bytes[3] = {0};
  void *outputs[1], *workspaces[3];
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  void *const buffers[4] = {inputs[0], inputs[1], inputs[0], outputs[0]};
  api->wait(call, api->dispatch(call, 0, 2, 2, buffers, 4, symbols, 1, 0, 0));
  (void)weights;
  return 0;
}

static int32_t there_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  int64_t bytes = symbols[0] * (int64_t)sizeof(float);
  int64_t room = (bytes + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
  const int64_t workspace_bytes[3] = {0, 0, 2 * room};
  void *outputs[1], *workspaces[3];
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  char *there = workspaces[2];
  void *const buffers[3] = {there, weights[1], there + room};
  itx_event event = api->copy(call, 1, 0, there, inputs[0], bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
  event = api->dispatch(call, 1, 3, 3, buffers, 3, symbols, 1, &event, 1);
  api->copy(call, 1, 0, outputs[0], there + room, bytes, ITX_COPY_SOURCE_ON_DEVICE, &event, 1);
  return 0;
}

static const itx_kernel_entry kernels[4] = {
    {plan_tiles, scale}, {plan_tiles, scale_wrongly}, {plan_tiles, accumulate}, {0, 0}};
static const itx_function_entry functions[4] = {
    {.call = scale_host, .size_count = 1, .input_count = 1, .output_count = 2, .output_size_count = 2},
    {.call = faulty_host, .size_count = 1, .input_count = 1, .output_count = 2, .output_size_count = 2},
    {.call = accumulate_host, .size_count = 1, .input_count = 2, .output_count = 1, .output_size_count = 1},
    {.call = there_host, .size_count = 1, .input_count = 1, .output_count = 1, .output_size_count = 1},
};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .kernel_count = 4,
    .function_count = 4,
    .weight_count = 2,
    .label_count = 4,
    .device_count = 2,
    .object_count = 1,
    .kernels = kernels,
    .functions = functions,
    .objects = embedded_object,
};
