//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The parallel cost formula for bench/fit_parallel.py, which calls it through ctypes.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COST_PARALLELFIT_H
#define INTARSIA_LIB_COST_PARALLELFIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One training run. Booleans are 0 or 1; `recompute`, `context_kind` and `order` are the numbers of the enumerations
 * in ParallelCost.h. Bandwidths are in 10^9 bytes a second, of a device and one direction. */
typedef struct {
  double layers, hidden, heads, key_heads, head_dim, width, matrices, vocabulary;
  double experts, experts_per_token, expert_width, shared_width;
  double peak_tflops, memory_gb, memory_gbps, link_gbps, network_gbps, node_devices, devices, ring_adapters;
  double tensor, context, expert, expert_tensor, folds_experts, pipeline, chunks, data, zero, sequence_parallel;
  double context_kind, order;
  double sequence, global_batch, micro_batch, recompute, fused_attention, overlaps_data, gradient_bytes;
  double offloads_states, offloads_activations, offloads_weights;
} itx_training_row;

/* Parts of StepTime in milliseconds, in the order of the struct; bytes of TrainingMemory in all; flops of a step that a
 * model's utilisation counts, with all scores and with those that are not masked. */
typedef struct {
  double linear, attention, elementwise, launch, tensor, context, expert, send, data, bubble, optimizer, total;
  double memory_bytes, model_flops, causal_model_flops, parameters;
} itx_training_time;

__attribute__((visibility("default"))) int32_t itx_parallel_figures(void);
__attribute__((visibility("default"))) const char *itx_parallel_figure(int32_t index);
/* Predicts rows with `figures`, or with those of the program where it is null. Returns the number of rows that were
 * predicted: fewer than `count` if the next one is wrong, with a message. */
__attribute__((visibility("default"))) int64_t itx_parallel_predict(const itx_training_row *rows, int64_t count,
                                                                    const double *figures, itx_training_time *times,
                                                                    char *message, int64_t size);

/* A device and a model of FleetPlacement.h, all in doubles. */
typedef struct {
  double accelerator_gbps, accelerator_bytes, host_gbps, host_bytes, disk_gbps;
} itx_fleet_device;
typedef struct {
  double layers, layer_bytes, hidden, activation_bytes;
} itx_fleet_model;

/* Milliseconds of a token. `layers` of each device; where it is null they are placed, and written to `placed`. With
 * `figures` null those of the program. */
__attribute__((visibility("default"))) double itx_fleet_token(const itx_fleet_device *devices, int64_t count,
                                                              const itx_fleet_model *model, const int32_t *layers,
                                                              int32_t *placed, const double *figures);
/* The same with equal parts of each layer on all devices, exchanged by a star of links. */
__attribute__((visibility("default"))) double itx_fleet_tensor_token(const itx_fleet_device *devices, int64_t count,
                                                                     const itx_fleet_model *model, double link_us,
                                                                     double link_gbps, const double *figures);
__attribute__((visibility("default"))) int32_t itx_fleet_figures(void);
__attribute__((visibility("default"))) const char *itx_fleet_figure(int32_t index);

#ifdef __cplusplus
}
#endif

#endif
