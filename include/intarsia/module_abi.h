/*===- module_abi.h - What a compiled module and the runtime promise each other ---------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * An artifact (.itx) is an ELF shared object that exports one symbol, `itx_module`, of type
 * itx_module_descriptor. It needs nothing from the runtime at link time: host functions get a table of functions.
 * Names, shapes and types of everything are in the artifact's JSON manifest; this file is only about calls.
 * All buffers are dense and row-major. Sizes are element counts unless the name says bytes.
 *
 * A module runs on one or several devices, those of the manifest's "devices". A device either shares the memory of the
 * host, as its CPU does, or has memory of its own: addresses in that are passed as pointers too, which host code
 * computes with and never follows.
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_MODULE_ABI_H
#define INTARSIA_MODULE_ABI_H

#include <stdint.h>

#define ITX_MODULE_ABI_VERSION 11u
#define ITX_MODULE_SYMBOL "itx_module"

/* Alignment in bytes of every buffer that the runtime makes, and of inputs in memory of a device: one cache line, one
 * 512-bit vector. Inputs in memory of the host lie where the caller has them, at a multiple of their element's bytes.
 */
#define ITX_BUFFER_ALIGNMENT 64

/* ---- Kernels ---------------------------------------------------------------------------------------------- */

/* The launch that a kernel computes from the sizes and the number of threads: the elements of `plan`. */
enum {
  ITX_PLAN_TILES = 0,           /* independent tiles; any thread may run any of them, in any order */
  ITX_PLAN_WORKSPACE_BYTES = 1, /* scratch of each thread, not initialised, ITX_BUFFER_ALIGNMENT aligned; negative if a
                                   size in the kernel does not fit in 64 bits: the launch then fails */
  ITX_PLAN_SHARED_BYTES = 2,    /* scratch of the launch, seen by all its threads */
  ITX_PLAN_FINISH_TILES = 3,    /* tiles that start when all others are done; numbered on from them */
  ITX_PLAN_ZEROED_BYTES = 4,    /* leading bytes of the shared scratch that are zeroed; the rest is uninitialised */
  ITX_PLAN_PRIVATE = 5,         /* from here on the kernel's own: block sizes and the like */
  ITX_PLAN_LENGTH = 16
};

/* Fills plan[ITX_PLAN_LENGTH]. `sizes` are the values of the kernel's symbolic dimensions, in its order. */
typedef void (*itx_kernel_plan_fn)(const int64_t *sizes, int64_t threads, int64_t *plan);

typedef struct itx_kernel_arguments {
  void *const *buffers; /* inputs, then outputs */
  const int64_t *sizes; /* as given to the plan function */
  const int64_t *plan;  /* as the plan function filled it */
  void *shared;         /* plan[ITX_PLAN_SHARED_BYTES] bytes */
} itx_kernel_arguments;

/* Runs tiles tile_begin … tile_end - 1: either some of the first ITX_PLAN_TILES or some of the finishing ones, never
 * both in one call. Allocates nothing, calls nothing but other kernel code. */
typedef void (*itx_kernel_run_fn)(const itx_kernel_arguments *arguments, int64_t tile_begin, int64_t tile_end,
                                  void *workspace);

/* The host code of a kernel. A kernel of a device with objects has its body there: `run` is null, and `plan` too if the
 * device needs none. */
typedef struct itx_kernel_entry {
  itx_kernel_plan_fn plan;
  itx_kernel_run_fn run;
} itx_kernel_entry;

/* ---- Host functions --------------------------------------------------------------------------------------- */

typedef struct itx_call itx_call; /* one call in flight; opaque to the module */
typedef uint64_t itx_event;       /* 0 is an event that has already happened; of a call, hence of any of its devices */

/* The owner of a size that a call refuses. */
enum {
  ITX_SIZE_OF_LEFT = 0,      /* left side of a check; index into the function's "checks" */
  ITX_SIZE_OF_RIGHT = 1,     /* right side of one */
  ITX_SIZE_OF_OUTPUT = 2,    /* a result; index into the function's "outputs" */
  ITX_SIZE_OF_LAUNCH = 3,    /* a kernel or its buffers; index into the manifest's "labels" */
  ITX_SIZE_OF_WORKSPACE = 4, /* the function's workspace, or where a buffer ends outside of it; the index is 0 */
};

/* What the ranks of a group do together. */
enum {
  ITX_COLLECTIVE_ALL_REDUCE = 0, /* sum; each element is added in the order of the group's ranks */
  ITX_COLLECTIVE_ALL_REDUCE_MAX = 1,
  ITX_COLLECTIVE_ALL_GATHER = 2,     /* the ranks' sources one after another; they may be of unequal length */
  ITX_COLLECTIVE_REDUCE_SCATTER = 3, /* sum; each rank gets its part, in the order of the group's ranks */
  ITX_COLLECTIVE_ALL_TO_ALL = 4,     /* part i of the source goes to rank i of the group; the parts are equal */
  ITX_COLLECTIVE_BROADCAST = 5,      /* from the group's first rank, whose source is read */
  ITX_COLLECTIVE_SEND = 6,           /* in a group of two: the first sends to the second */
  ITX_COLLECTIVE_RECEIVE = 7,
  /* Sum of rows: of n ranks each gets ceil(rows / n), in the order of the group's ranks; what is behind the last row
   * repeats it. The other kind is the way back: rows that all ranks have so become all rows on each. */
  ITX_COLLECTIVE_REDUCE_SCATTER_ROWS = 8,
  ITX_COLLECTIVE_ALL_GATHER_ROWS = 9,
  /* The sums of f32, whose messages between hosts are rounded to 8 bits: ITX_SUM_INT8 of runtime.h. */
  ITX_COLLECTIVE_ALL_REDUCE_INT8 = 10,
  ITX_COLLECTIVE_REDUCE_SCATTER_ROWS_INT8 = 11,
  /* A broadcast of a result that no kernel reads. It does nothing in calls whose caller wants no results: ranks go on
   * with the next call while others still compute this one. */
  ITX_COLLECTIVE_BROADCAST_RESULT = 12
};

/* Says of an exchange that it is in memory of the host. */
#define ITX_NO_DEVICE UINT32_MAX

/* Which sides of a copy are in the memory of the device that copies. */
enum {
  ITX_COPY_DESTINATION_ON_DEVICE = 1,
  ITX_COPY_SOURCE_ON_DEVICE = 2,
};

typedef struct itx_host_api {
  /* Compares two sizes by an entry of the function's "checks" in the manifest. Returns 0 if they pass, else 1: the host
   * function then returns 1 at once. */
  int32_t (*check)(itx_call *call, uint32_t check, int64_t left, int64_t right);
  /* Makes the call's results and workspaces. output_sizes holds the sizes of all results one after another; outputs
   * receives a pointer for each result, in the host's memory or in that of the device that the manifest names for it.
   * workspace_bytes has the bytes of a workspace for each
   * memory: that of the host, then those of the devices in their order; workspaces receives their addresses, aligned,
   * valid for 0 bytes too. A device that shares the host's memory has no workspace of its own. Returns 0, or 1 when out
   * of memory: the host function then returns 1 at once. */
  int32_t (*prepare)(itx_call *call, const int64_t *workspace_bytes, const int64_t *output_sizes, void **outputs,
                     void **workspaces);
  /* Starts a kernel (index into the manifest's "kernels") on a queue of its device after the given events, which may be
   * of other devices. label is an index into the manifest's "labels": where in the user's model the work comes from,
   * for profiles. The arrays are the caller's and may change when the function returns. */
  itx_event (*dispatch)(itx_call *call, uint32_t queue, uint32_t kernel, uint32_t label, void *const *buffers,
                        uint32_t buffer_count, const int64_t *sizes, uint32_t size_count, const itx_event *after,
                        uint32_t after_count);
  /* Copies bytes from one buffer to another on a queue of a device. `memories` is a sum of ITX_COPY_*: which of the two
   * buffers are in the device's own memory; others are in the host's. */
  itx_event (*copy)(itx_call *call, uint32_t device, uint32_t queue, void *destination, const void *source,
                    int64_t bytes, uint32_t memories, const itx_event *after, uint32_t after_count);
  /* Blocks until the event has happened. Returns 0, or 1 if the call has failed: a host function that goes on by what
   * it reads from memory then returns 1 at once. */
  int32_t (*wait)(itx_call *call, itx_event event);
  /* Ends the call because of a size, before anything is made. `size` is negative, or INT64_MAX if it does not fit in 64
   * bits, or larger than the workspace. `owner` is one of ITX_SIZE_OF_*. The host function then returns 1 at once. */
  void (*refuse)(itx_call *call, uint32_t owner, uint32_t index, int64_t size);
  /* Checks integers that kernels have computed by an entry of the function's "checks" with the relation "below": each
   * must be in [0, limit). They are in the host's memory, `element_bytes` (1, 2, 4 or 8) each, signed, and what
   * computes them has been waited for. Returns 0 if they pass, else 1: the host function then returns 1 at once. */
  int32_t (*check_indices)(itx_call *call, uint32_t check, const void *indices, uint32_t element_bytes, int64_t count,
                           int64_t limit);
  /* Exchanges data with the other ranks of a group: an index into the manifest's "world"."groups". All of them do this
   * with the same `kind` (ITX_COLLECTIVE_*), `element` (an itx_dtype of runtime.h) and size, in the same order.
   * `elements` counts the source; the destination for ITX_COLLECTIVE_RECEIVE, ITX_COLLECTIVE_ALL_GATHER_ROWS
   * and the two kinds of ITX_COLLECTIVE_BROADCAST. `rows`: how many rows these elements are, for the two kinds of rows;
   * others ignore it. Source and destination may be the same where they have one size.
   * `device` is ITX_NO_DEVICE: source and destination are in memory of the host. Waits for the events, blocks until
   * this rank's part is done and returns 0. Else both are in the memory of that device: it goes on a queue of it, after
   * the events, and the result is its event. (Where the group's devices cannot exchange data themselves, the call
   * blocks.) If it fails, the call has failed. */
  itx_event (*collective)(itx_call *call, uint32_t device, uint32_t queue, uint32_t kind, uint32_t element,
                          uint32_t group, uint32_t label, void *destination, const void *source, int64_t elements,
                          int64_t rows, const itx_event *after, uint32_t after_count);
} itx_host_api;

/* An entry point. `symbols`: values of the function's symbolic sizes in manifest order, already checked.
 * `inputs`: data of each input in manifest order, defaults filled in, token ranges checked; in the host's memory, or in
 * that of the device that the manifest names for it. `weights`: data of each tensor of the manifest's
 * "weights"."tensors", in the memory that "weights"."devices" says. Returns 0, or 1 when a check, prepare or wait
 * failed or a size was refused. */
typedef int32_t (*itx_host_fn)(const itx_host_api *api, itx_call *call, const int64_t *symbols, void *const *inputs,
                               void *const *weights);

/* ---- The module ------------------------------------------------------------------------------------------- */

/* A host function, and the counts of manifest entries that it relies on: a runtime refuses a module whose manifest has
 * other counts. */
typedef struct itx_function_entry {
  itx_host_fn call;
  uint32_t size_count;  /* symbolic sizes */
  uint32_t check_count; /* what sizes are checked for */
  uint32_t input_count;
  uint32_t range_count; /* inputs whose values have a "range" */
  uint32_t below_count; /* inputs whose values are "below" a size */
  uint32_t output_count;
  uint32_t output_size_count; /* dimensions of all results together */
} itx_function_entry;

/* Code for a device, in the form that its driver loads. */
typedef struct itx_object {
  const void *data;
  uint64_t bytes;
} itx_object;

typedef struct itx_module_descriptor {
  uint32_t abi_version; /* ITX_MODULE_ABI_VERSION */
  uint32_t variant_count;
  uint32_t kernel_count;
  uint32_t function_count;
  uint32_t weight_count;
  uint32_t label_count;
  uint32_t device_count;
  uint32_t object_count;
  const itx_kernel_entry *kernels; /* [variant_count][kernel_count]; variants of host code; manifest order of both */
  const itx_function_entry *functions; /* [function_count]; manifest order */
  const itx_object *objects;           /* [object_count]; the manifest's "devices" refer to them by index */
  /* XXH3-128 of the manifest's text that the code was compiled with, most significant byte first, which a runtime
   * compares; all 0 in code that was made without one. */
  uint8_t manifest_hash[16];
} itx_module_descriptor;

#endif
