/*===- decoder_device.c - A language model that runs on the reference device ----------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The functions of decoder.c, with kernels and state on the second of two devices. Inputs are copied there, logits
 * back.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"
#include "test/unit/Runtime/modules/embedded_object.h"

enum { vocabulary = 16, failing = 13, on_device = 1, input_count = 5, alignment = ITX_BUFFER_ALIGNMENT };

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

/* symbols: tokens, sequences, pages_of_a_sequence, outputs, pages. Kernel 0 has one state, kernel 1 three. */
static int32_t run(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                   uint32_t kernel, void *const *states, uint32_t state_count) {
  const int64_t output_sizes[2] = {symbols[3], vocabulary};
  const int64_t sizes[3] = {symbols[0], symbols[2], symbols[3]};
  const int64_t elements[input_count] = {symbols[0], symbols[0], symbols[0], symbols[1] * symbols[2], symbols[3]};
  const int64_t *ids = inputs[0];
  int64_t offsets[input_count + 1], bytes = 0, logits_bytes = symbols[3] * vocabulary * (int64_t)sizeof(float);
  for (int i = 0; i <= input_count; ++i) {
    offsets[i] = bytes;
    bytes += i < input_count ? elements[i] * (int64_t)sizeof(int64_t) : logits_bytes;
    bytes = (bytes + alignment - 1) / alignment * alignment;
  }
  const int64_t workspace_bytes[3] = {0, 0, bytes};
  void *outputs[1], *workspaces[3], *buffers[9];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  itx_event copied[input_count];
  for (uint32_t i = 0; i < input_count; ++i) {
    buffers[i] = (char *)workspaces[2] + offsets[i];
    copied[i] = api->copy(call, on_device, i, buffers[i], inputs[i], elements[i] * (int64_t)sizeof(int64_t),
                          ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
  }
  for (uint32_t i = 0; i < state_count; ++i)
    buffers[input_count + i] = states[i];
  void *logits = buffers[input_count + state_count] = (char *)workspaces[2] + offsets[input_count];
  itx_event computed =
      api->dispatch(call, 1, kernel, 0, buffers, input_count + state_count + 1, sizes, 3, copied, input_count);
  itx_event done =
      api->copy(call, on_device, 0, outputs[0], logits, logits_bytes, ITX_COPY_SOURCE_ON_DEVICE, &computed, 1);
  for (int64_t t = 0; t < symbols[0]; ++t)
    if (ids[t] == failing && api->check(call, 0, symbols[0], 0))
      return 1;
  api->wait(call, done);
  return 0;
}

static int32_t step_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                         void *const *weights) {
  (void)weights;
  return run(api, call, symbols, inputs, 0, &inputs[5], 1);
}

static int32_t tailed_host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                           void *const *weights) {
  void *const states[3] = {inputs[7], inputs[1], inputs[0]};
  (void)weights;
  return run(api, call, symbols, inputs + 2, 1, states, 3);
}

static const itx_kernel_entry kernels[2] = {{0, 0}, {0, 0}};
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
    .kernel_count = 2,
    .function_count = 2,
    .label_count = 1,
    .device_count = 2,
    .object_count = 1,
    .kernels = kernels,
    .functions = functions,
    .objects = embedded_object,
};
