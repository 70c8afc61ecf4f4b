/*===- ranks.c - A module that two ranks run together ----------------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * main: out[i] = x[i] of rank 0 + 10 * x[i] of rank 1, by an all-reduce in group 0; each rank has a function of its
 * own. Rank 1 goes wrong where x[0] says so: -1 it is killed, -2 it hangs, -3 it gives up, -4 it does something else.
 * pass:   rank 0 sends x to rank 1, which sends it back through a gather of both and a maximum.
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/module_abi.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Filled in by the tests: contents of the header, and the manifest with spaces after it. */
__attribute__((section(".itx.header"), used, aligned(64))) static const char header[64] = {1};
__attribute__((section(".itx.manifest"), used)) static const char manifest[8192] = {' '};

enum { f32 = 0 };

static int32_t scaled_sum(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          int rank) {
  const float *x = inputs[0];
  int64_t workspace_bytes[2] = {symbols[0] * 4, 0};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, symbols, outputs, workspaces))
    return 1;
  float *scaled = workspaces[0];
  for (int64_t i = 0; i < symbols[0]; ++i)
    scaled[i] = rank == 0 ? x[i] : 10 * x[i];
  uint32_t kind = ITX_COLLECTIVE_ALL_REDUCE;
  if (rank == 1 && x[0] == -1)
    kill(getpid(), SIGKILL);
  if (rank == 1 && x[0] == -2)
    sleep(1000);
  if (rank == 1 && x[0] == -3) {
    api->refuse(call, ITX_SIZE_OF_LAUNCH, 0, -7);
    return 1;
  }
  if (rank == 1 && x[0] == -4)
    kind = ITX_COLLECTIVE_ALL_REDUCE_MAX;
  itx_event event = api->collective(call, ITX_NO_DEVICE, 0, kind, f32, 0, 0, outputs[0], scaled, symbols[0], 0, 0, 0);
  return api->wait(call, event);
}

static int32_t first(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                     void *const *weights) {
  (void)weights;
  return scaled_sum(api, call, symbols, inputs, 0);
}
static int32_t second(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                      void *const *weights) {
  (void)weights;
  return scaled_sum(api, call, symbols, inputs, 1);
}

/* Rank 0's x goes to rank 1 and comes back in a gather: out = maximum over ranks of [x of rank 0, what rank 1 got]. */
static int32_t pass(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs, int rank) {
  int64_t n = symbols[0], workspace_bytes[2] = {n * 4 * 3, 0}, output_sizes[1] = {2 * n};
  void *outputs[1], *workspaces[2];
  if (api->prepare(call, workspace_bytes, output_sizes, outputs, workspaces))
    return 1;
  float *mine = workspaces[0], *both = mine + n;
  memcpy(mine, inputs[0], n * 4);
  if (rank == 0)
    api->collective(call, ITX_NO_DEVICE, 0, ITX_COLLECTIVE_SEND, f32, 0, 1, 0, mine, n, 0, 0, 0);
  else
    api->collective(call, ITX_NO_DEVICE, 0, ITX_COLLECTIVE_RECEIVE, f32, 0, 1, mine, 0, n, 0, 0, 0);
  api->collective(call, ITX_NO_DEVICE, 0, ITX_COLLECTIVE_ALL_GATHER, f32, 0, 1, both, mine, n, 0, 0, 0);
  return api->wait(call, api->collective(call, ITX_NO_DEVICE, 0, ITX_COLLECTIVE_ALL_REDUCE_MAX, f32, 0, 1, outputs[0],
                                         both, 2 * n, 0, 0, 0));
}
static int32_t pass_first(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                          void *const *weights) {
  (void)weights;
  return pass(api, call, symbols, inputs, 0);
}
static int32_t pass_second(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                           void *const *weights) {
  (void)weights;
  return pass(api, call, symbols, inputs, 1);
}

#define FUNCTION(host_function)                                                                                        \
  {.call = host_function, .size_count = 1, .input_count = 1, .output_count = 1, .output_size_count = 1}
static const itx_function_entry functions[4] = {FUNCTION(first), FUNCTION(second), FUNCTION(pass_first),
                                                FUNCTION(pass_second)};

__attribute__((visibility("default"))) const itx_module_descriptor itx_module = {
    .abi_version = ITX_MODULE_ABI_VERSION,
    .variant_count = 1,
    .function_count = 4,
    .label_count = 2,
    .device_count = 1,
    .functions = functions,
};
