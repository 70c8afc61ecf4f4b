/*===- alternatives_device.c - A module whose functions are compiled for several devices ----------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Device 0 is the CPU of the host, device 1 a reference device. Kernel 0 of the CPU is h(x) = factor * x + 10, kernel 1
 * of the reference device r(x) = factor * x + 20, with a factor for each i modulo 4.
 * main:   on both devices out[i] = h(r(x[i])), on the CPU alone h(x[i]), on the reference device alone r(x[i]).
 * other:  on the reference device r(x[i]), on the CPU h(x[i]).
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"
#include "test/unit/Runtime/modules/embedded_object.h"

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

enum { on_host = 1, on_reference = 2 };

static void scale_plan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  (void)threads;
}

static void scale(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  const float *x = arguments->buffers[0], *factors = arguments->buffers[1];
  float *out = arguments->buffers[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = factors[i % 4] * x[i] + 10;
  (void)workspace;
}

static int32_t run(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                   void *const *weights, int devices) {
  int64_t bytes = symbols[0] * (int64_t)sizeof(float);
  int64_t room = (bytes + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
  const int64_t workspace_bytes[3] = {bytes, 0, devices & on_reference ? 2 * room : 0};
  void *outputs[1], *workspaces[3];
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  void *values = inputs[0];
  itx_event event = 0;
  if (devices & on_reference) {
    char *there = workspaces[2];
    void *result = devices & on_host ? workspaces[0] : outputs[0];
    void *const buffers[3] = {there, weights[1], there + room};
    event = api->copy(call, 1, 0, there, values, bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
    event = api->dispatch(call, 1, 1, 1, buffers, 3, symbols, 1, &event, 1);
    event = api->copy(call, 1, 0, result, there + room, bytes, ITX_COPY_SOURCE_ON_DEVICE, &event, 1);
    values = result;
  }
  if (devices & on_host) {
    void *const buffers[3] = {values, weights[0], outputs[0]};
    event = api->dispatch(call, 0, 0, 0, buffers, 3, symbols, 1, &event, 1);
  }
  api->wait(call, event);
  return 0;
}

static int32_t both(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                    void *const *weights) {
  return run(api, call, symbols, inputs, weights, on_host | on_reference);
}
static int32_t host(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                    void *const *weights) {
  return run(api, call, symbols, inputs, weights, on_host);
}
static int32_t reference(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                         void *const *weights) {
  return run(api, call, symbols, inputs, weights, on_reference);
}

static const itx_kernel_entry kernels[2] = {{scale_plan, scale}, {0, 0}};
#define FUNCTION(host_function)                                                                                        \
  {.call = host_function, .size_count = 1, .input_count = 1, .output_count = 1, .output_size_count = 1}
static const itx_function_entry functions[5] = {FUNCTION(both), FUNCTION(host), FUNCTION(reference),
                                                FUNCTION(reference), FUNCTION(host)};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .kernel_count = 2,
    .function_count = 5,
    .weight_count = 2,
    .label_count = 2,
    .device_count = 2,
    .object_count = 1,
    .kernels = kernels,
    .functions = functions,
    .objects = embedded_object,
};
