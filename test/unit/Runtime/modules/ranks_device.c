/*===- ranks_device.c - A module whose ranks exchange data in the memory of devices ----------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * exchange: y = what the exchange makes of x, in the memory of device 0. y is `before` where nothing is written to it.
 *           what: the kind, the group, rows, elements; behind these a rank that goes wrong, and how: 1 it is killed, 2
 *           it hangs. A kind of 1000 more: the exchange is made twice, the second time of its own result.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

enum { f32 = 0, device = 0, queue = 0 };

static int32_t exchange(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                        void *const *weights) {
  const int64_t *what = inputs[2];
  int64_t x_bytes = symbols[0] * 4, y_bytes = symbols[1] * 4;
  int64_t y_offset = (x_bytes + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
  int64_t workspace_bytes[2] = {0, y_offset + y_bytes};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, symbols + 1, outputs, workspaces))
    return 1;
  char *x = workspaces[1], *y = x + y_offset;
  itx_event events[2];
  events[0] = api->copy(call, device, 1, x, inputs[0], x_bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
  events[1] = api->copy(call, device, 1, y, inputs[1], y_bytes, ITX_COPY_DESTINATION_ON_DEVICE, 0, 0);
  int rank = atoi(getenv("ITX_TEST_RANK"));
  if (what[4] == rank && what[5] == 1)
    kill(getpid(), SIGKILL);
  if (what[4] == rank && what[5] == 2)
    sleep(1000);
  uint32_t kind = (uint32_t)(what[0] % 1000), group = (uint32_t)what[1];
  int sends = kind == ITX_COLLECTIVE_SEND && rank != what[6], receives = kind == ITX_COLLECTIVE_SEND && rank == what[6];
  itx_event done = api->collective(call, device, queue, receives ? ITX_COLLECTIVE_RECEIVE : kind, f32, group, 0,
                                   sends ? 0 : y, receives ? 0 : x, what[3], what[2], events, 2);
  if (what[0] >= 1000)
    done = api->collective(call, device, queue, kind, f32, group, 0, y, y, what[3], what[2], &done, 1);
  (void)weights;
  return api->wait(call, api->copy(call, device, 1, outputs[0], y, y_bytes, ITX_COPY_SOURCE_ON_DEVICE, &done, 1));
}

static const itx_function_entry functions[1] = {
    {.call = exchange, .size_count = 3, .input_count = 3, .output_count = 1, .output_size_count = 1}};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .function_count = 1,
    .label_count = 1,
    .device_count = 1,
    .functions = functions,
};
