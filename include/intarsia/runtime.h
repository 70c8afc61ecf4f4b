/*===- runtime.h - Load compiled modules and call them ---------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface (C99) of libintarsia_runtime.so. The short form:
 *
 *   itx_module *module;
 *   if (itx_module_load("m.itx", NULL, &module) != ITX_OK) { puts(itx_last_error()); return 1; }
 *   const itx_function *f;
 *   itx_module_function(module, "main", &f);
 *   itx_tensor *inputs[2] = {NULL, NULL}, *outputs[1];              // NULL: the input's default
 *   int64_t shape[2] = {1, 128};
 *   itx_tensor_wrap(ids, ITX_I64, 2, shape, NULL, NULL, &inputs[0]);
 *   itx_invoke(f, inputs, 2, outputs, 1);
 *   const float *result = itx_tensor_data(outputs[0]);
 *   itx_tensor_free(outputs[0]); itx_tensor_free(inputs[0]); itx_module_free(module);
 *
 * Threads: every function may be called from any thread; a module and a tensor may be used by several threads at once
 * as long as none frees it. Fork: a child may use all objects that its parent made, except a call that the parent
 * started and that was not done at the fork.
 *
 * Null pointers: where a pointer is needed, a null one is ITX_INVALID_ARGUMENT; functions that return no status give a
 * null pointer or 0 for a null handle (itx_tensor_dtype: a value that is not in the enumeration).
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_RUNTIME_H
#define INTARSIA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ITX_API __attribute__((visibility("default")))
#else
#define ITX_API
#endif

/* Enumerations have the size of int in C++ too, so that an unlisted value is an error and not undefined behaviour. */
#ifdef __cplusplus
#define ITX_ENUM(name) enum name : int
extern "C" {
#else
#define ITX_ENUM(name) enum name
#endif

/* ---- Errors ----------------------------------------------------------------------------------------------- */

typedef ITX_ENUM(itx_status){
    ITX_OK = 0,
    ITX_INVALID_ARGUMENT = 1, /* what the caller passed does not fit: name, rank, dtype, size, value */
    ITX_NOT_FOUND = 2,        /* no such file, function, input or device */
    ITX_IO_ERROR = 3,         /* the operating system refused to read or write */
    ITX_CORRUPT = 4,          /* truncated, changed, or not what it claims to be */
    ITX_VERSION_MISMATCH = 5, /* an artifact of another version of Intarsia */
    ITX_UNSUPPORTED = 6,      /* this machine lacks what the module needs */
    ITX_OUT_OF_MEMORY = 7,
    ITX_INTERNAL = 8,
    ITX_CACHE_FULL = 9,   /* a cache has no page, or no room for a sequence, left; what it holds is as it was */
    ITX_EVICTED = 10,     /* a sequence's pages were given to others: its tokens have to be given again */
    ITX_DEVICE_LOST = 11, /* a device stopped working; what was in its memory is gone. Other devices go on */
    ITX_RANK_LOST = 12, /* a process of the world ended, hangs or never came; this one cannot use the world any more */
    ITX_BUSY = 13,      /* as many requests wait as an engine lets: submit this one again later */
    ITX_CANCELLED = 14  /* the caller has ended the call: itx_invoke_options.cancelled, itx_pending_cancel */
} itx_status;

/* The message of the last call on this thread that did not return ITX_OK; "" when there was none. Valid until the
 * next failing call on the same thread. */
ITX_API const char *itx_last_error(void);

/* "ok", "invalid argument", … */
ITX_API const char *itx_status_name(itx_status status);

/* "0.1.0 (commit)". */
ITX_API const char *itx_version(void);

/* ---- Threads ---------------------------------------------------------------------------------------------- */

/* Sets the number of threads that a call uses on the device "cpu", its caller included, 1 to 1024. 0 restores the
 * default: the environment variable ITX_THREADS, or else the number that the affinity mask and the cgroup's CPU quota
 * allow. Takes effect for the next call. An invalid ITX_THREADS is an error here and when a module is loaded. */
ITX_API itx_status itx_set_threads(int32_t threads);
ITX_API int32_t itx_threads(void);

/* ---- Devices ---------------------------------------------------------------------------------------------- */

/* The devices of this machine, which never change while the process runs. The first is the CPU of the host, which runs
 * the functions of modules; their kernels run on the devices that they were compiled for. */
ITX_API size_t itx_device_count(void);
/* Returns the name of a device: its kind, "cpu", or its kind and a number. A null pointer past the end. */
ITX_API const char *itx_device_name(size_t index);
/* Returns a JSON object: name, description, threads, features, memory_bytes. A null pointer past the end. */
ITX_API const char *itx_device_info(size_t index);

/* A handle of a device. */
typedef struct itx_device itx_device;

typedef struct itx_device_options {
  size_t struct_bytes; /* sizeof(itx_device_options): lets the structure grow */
  int32_t threads;     /* of a call, its caller included, 1 to 1024; 0: one for each of `processors`, or the default */
  /* Processors, as the system numbers them, that the device's threads run on; processor_count 0: all that the process
   * may use. The thread that makes a call computes too; it runs where the program lets it. */
  const int32_t *processors;
  size_t processor_count;
} itx_device_options;

/* Makes a device of a kind, whose name is the kind and a number; options may be null. Kind "cpu": a part of the host's
 * CPU, whose threads compute only for the modules that are loaded with this device (itx_load_options), so that modules
 * can divide a machine. The threads start when a call first needs them. ITX_UNSUPPORTED for other kinds. */
ITX_API itx_status itx_device_create(const char *kind, const itx_device_options *options, itx_device **device);
/* Gives a handle of one of this machine's devices, by its name. */
ITX_API itx_status itx_device_find(const char *name, itx_device **device);
/* Frees the handle; a null pointer is allowed. The device and its threads live as long as a module uses them. */
ITX_API void itx_device_free(itx_device *device);
ITX_API const char *itx_device_get_name(const itx_device *device);
/* Returns the same JSON object as itx_device_info, with the processors if they were given. */
ITX_API const char *itx_device_get_info(const itx_device *device);

/* ---- Types ------------------------------------------------------------------------------------------------ */

typedef ITX_ENUM(itx_dtype){ITX_F32 = 0,  ITX_F16 = 1,  ITX_BF16 = 2, ITX_F64 = 3, ITX_I64 = 4,
                            ITX_I32 = 5,  ITX_I16 = 6,  ITX_I8 = 7,   ITX_U8 = 8,  ITX_BOOL = 9 /* one byte, 0 or 1 */,
                            ITX_U16 = 10, ITX_U32 = 11, ITX_U64 = 12} itx_dtype;

/* Largest rank of a tensor. */
#define ITX_MAX_RANK 16

/* Returns "f32", "i64", …; a null pointer for a value that is not in the enumeration. */
ITX_API const char *itx_dtype_name(itx_dtype dtype);
/* Returns the bytes of one element; 0 for a value that is not in the enumeration. */
ITX_API size_t itx_dtype_bytes(itx_dtype dtype);

/* ---- Tensors ---------------------------------------------------------------------------------------------- */

/* A dense row-major array, in the memory of the host or in a device's own. */
typedef struct itx_tensor itx_tensor;

/* Work that another thread does: a call or a copy, and the tensors that it makes. */
typedef struct itx_pending itx_pending;

/* Makes a tensor with its own memory (64-byte aligned). `data` is copied into it; if it is null, the contents are
 * undefined. */
ITX_API itx_status itx_tensor_create(itx_dtype dtype, uint32_t rank, const int64_t *shape, const void *data,
                                     itx_tensor **tensor);
/* Makes a tensor over the caller's memory, without copying. `release(context)`, unless null, is called when the last
 * user of the memory is gone (this may be on another thread). Calls read it in place; they copy it at each call if its
 * address is no multiple of its element's bytes. */
ITX_API itx_status itx_tensor_wrap(const void *data, itx_dtype dtype, uint32_t rank, const int64_t *shape,
                                   void (*release)(void *context), void *context, itx_tensor **tensor);
/* Makes a tensor in the memory of a device: its own, or that of the host if it has none (or for a null device). `data`,
 * in memory of the host, is copied into it; if it is null, the contents are undefined. */
ITX_API itx_status itx_tensor_create_on(const itx_device *device, itx_dtype dtype, uint32_t rank, const int64_t *shape,
                                        const void *data, itx_tensor **tensor);
/* Makes a tensor in the memory of a device (null: of the host) with the contents of another, wherever that is. Between
 * two devices with memory of their own the contents go through memory of the host. */
ITX_API itx_status itx_tensor_copy(const itx_tensor *tensor, const itx_device *device, itx_tensor **copy);
/* The same on another thread: itx_pending_wait gives the copy. The tensor's handle may be freed at once, its contents
 * must not change before the copy is done. */
ITX_API itx_status itx_tensor_copy_start(const itx_tensor *tensor, const itx_device *device, itx_pending **pending);
/* Makes a tensor of `count` rows of another one, from `first` on: it shares the memory. Rows are along the first
 * dimension. */
ITX_API itx_status itx_tensor_rows(const itx_tensor *tensor, int64_t first, int64_t count, itx_tensor **rows);
/* Returns the name of the device in whose own memory the tensor is; a null pointer for memory of the host. */
ITX_API const char *itx_tensor_device(const itx_tensor *tensor);
/* Frees the handle; a null pointer is allowed. The memory lives on while a DLPack tensor or a call in flight uses it.
 */
ITX_API void itx_tensor_free(itx_tensor *tensor);

ITX_API itx_dtype itx_tensor_dtype(const itx_tensor *tensor);
ITX_API uint32_t itx_tensor_rank(const itx_tensor *tensor);
ITX_API const int64_t *itx_tensor_shape(const itx_tensor *tensor);
ITX_API int64_t itx_tensor_elements(const itx_tensor *tensor);
ITX_API size_t itx_tensor_bytes(const itx_tensor *tensor);
/* Returns where the tensor's first element is. That of a tensor in a device's own memory must not be followed: it means
 * something to the device alone. Such a tensor cannot be saved (ITX_INVALID_ARGUMENT). */
ITX_API void *itx_tensor_data(const itx_tensor *tensor);

/* DLPack (https://dmlc.github.io/dlpack): the structures are those of its published ABI, versioned (1.x) or not (0.x).
 * Device types: those of memory of the host; those that the devices of this machine have, where memory of a device
 * must be dense. The device "reference" has no type of its own, and exports kDLExtDev: only this runtime can import it.
 * from_dlpack: takes `managed` over if it succeeds and calls its deleter when the last user is gone. Rows that are
 * not dense are copied into dense memory, everything else stays where it is.
 * to_dlpack: shares the memory; the receiver calls the deleter. A tensor that was imported read-only and not copied is
 * exported read-only; DLPack 0.x cannot express that, so to_dlpack refuses it. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
ITX_API itx_status itx_tensor_from_dlpack(struct DLManagedTensor *managed, itx_tensor **tensor);
ITX_API itx_status itx_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed, itx_tensor **tensor);
ITX_API itx_status itx_tensor_to_dlpack(const itx_tensor *tensor, struct DLManagedTensor **managed);
ITX_API itx_status itx_tensor_to_dlpack_versioned(const itx_tensor *tensor, struct DLManagedTensorVersioned **managed);

/* NumPy files (.npy 1.0 to 3.0, little endian; Fortran order is converted). bf16 has no NumPy type and is stored as
 * unsigned 16-bit integers ('<u2'), which are read back as bf16. Saving writes a temporary file and renames it. */
ITX_API itx_status itx_tensor_load_npy(const char *path, itx_tensor **tensor);
ITX_API itx_status itx_tensor_save_npy(const itx_tensor *tensor, const char *path);

/* ---- Modules ---------------------------------------------------------------------------------------------- */

typedef struct itx_module itx_module;

typedef struct itx_load_options {
  size_t struct_bytes; /* sizeof(itx_load_options): lets the structure grow */
  int32_t verify;      /* not 0: reads all weights and checks their hash as well */
  const char *variant; /* name of the target variant to run; null: the first that this CPU can run */
  const char *weights; /* path of the weights file; null: the one beside the artifact */
  /* Names of devices of this machine: the only ones that the module may use; device_count 0: all. Where the artifact
   * has a function for several choices of devices, the first that is possible is taken. */
  const char *const *devices;
  size_t device_count;
  /* Not 0: each kernel that a call runs is run a second time, slowly, by a device that all kernels are compiled for. A
   * call ends with ITX_INTERNAL where results differ by more than this tolerance, relative to the larger of the value
   * and the root mean square of the result; 0.001 suits f32, 0.05 inputs of 8 bits. ITX_INVALID_ARGUMENT if the
   * artifact has no such device
   * (--target=cpu,reference). */
  double verify_kernels;
  /* Devices that the module may use, beside those in `devices`; no others, if either has any. Their handles may be
   * freed after the load. */
  itx_device *const *device_handles;
  size_t device_handle_count;
  /* Memory in bytes that this process may use, all that it allocates included; 0: no limit. If the weights do not fit
   * beside the rest, as many as do stay in memory; the others are read from their file in each call, while the model
   * computes. ITX_OUT_OF_MEMORY names the smallest limit that is possible, also from calls that need more scratch
   * memory than is left. Without a limit, or with one above the memory that is available, this is done if the weights
   * do not fit into that memory, and nothing is refused. Weights on devices with memory of their own are not counted,
   * nor are files that the system keeps while memory is free. ITX_UNSUPPORTED together with verify_kernels, or if the
   * weights were given in memory. */
  uint64_t memory_bytes;
} itx_load_options;

/* Loads an artifact. Its header, its hash and its manifest are checked before any of its code is mapped executable;
 * weights are mapped read-only and checked by size and header hash; those of a device with memory of its own are copied
 * there. options may be null. ITX_UNSUPPORTED says which devices the artifact needs, and which this machine has.
 * The hash finds damage, it is no signature: load only modules that you trust. */
ITX_API itx_status itx_module_load(const char *path, const itx_load_options *options, itx_module **module);
/* Loads an artifact from memory (copied; may be freed afterwards). `name` is for messages; its folder, if any, is
 * searched for a separate weights file. */
ITX_API itx_status itx_module_load_memory(const void *data, size_t bytes, const char *name,
                                          const itx_load_options *options, itx_module **module);
/* Loads the module that is appended to an executable made with --emit=exe. path: null for the running executable.
 * ITX_NOT_FOUND when there is none. */
ITX_API itx_status itx_module_load_embedded(const char *path, const itx_load_options *options, itx_module **module);
/* Frees the handle and its functions; a null pointer is allowed. It does not wait: a call that has begun (an
 * itx_pending, an itx_invoke on another thread) keeps the code and the weights until it is done, and tensors remain
 * valid. A call that begins afterwards returns ITX_INVALID_ARGUMENT. */
ITX_API void itx_module_free(itx_module *module);

/* Returns the artifact's manifest, JSON in UTF-8. */
ITX_API const char *itx_module_manifest(const itx_module *module);
/* Returns the name of the target variant that runs, e.g. "x86-64-v4". */
ITX_API const char *itx_module_variant(const itx_module *module);

/* Returns a JSON object about weights that are read while the model computes: "limit_bytes", "weight_bytes",
 * "kept_bytes" (that stay in memory at present), "expert_bytes" (experts that are in memory), "read_bytes" and
 * "wait_seconds" since the load, and "direct": whether they are read past the system's page cache. It lives until the
 * thread calls this function again. Returns a null pointer if all weights are in memory. */
ITX_API const char *itx_module_memory(const itx_module *module);

/* Files of the model that the artifact carries, with their folders: for a language model "tokenizer.json",
 * "tokenizer_config.json", …; if it is from a GGUF file, "tokenizer.gguf.json": the metadata that begin with
 * tokenizer., as JSON. The name is a null pointer past the end. */
ITX_API size_t itx_module_file_count(const itx_module *module);
ITX_API const char *itx_module_file_name(const itx_module *module, size_t index);
/* Gives the bytes of such a file, which live as long as the module. ITX_NOT_FOUND lists the existing files;
 * ITX_CORRUPT means that the bytes do not have the hash in the artifact. */
ITX_API itx_status itx_module_file(const itx_module *module, const char *name, const void **data, size_t *bytes);

/* ---- Functions and their signatures ----------------------------------------------------------------------- */

/* A function of a module. Data about it live as long as the module; after the module is freed, queries return the same
 * as for a null handle. */
typedef struct itx_function itx_function;

typedef struct itx_value_info {
  const char *name;
  itx_dtype dtype;
  uint32_t rank;
  const int64_t *shape;       /* [rank]; -1 where the size is known at the call only */
  const char *const *symbols; /* [rank]; name of the size ("batch"; of outputs also "batch * sequence"), null for a
                                 static one. Same name, same size */
  const int64_t *maxima;      /* [rank]; the largest size allowed, -1 where there is no limit */
  int32_t optional;           /* not 0: may be left out, and is filled with default_value */
  double default_value;
  int32_t has_range; /* not 0: values must be in [range_low, range_high) */
  int64_t range_low;
  int64_t range_high;
  int32_t is_state; /* not 0: the call updates it in place; its memory begins at a multiple of 64 bytes. State that a
                       model keeps on a device is made by a cache; from memory of the host it is copied there before a
                       call, and back after it */
  /* Name of the device in whose own memory the function reads or makes it; null: the host's. An input that is there is
   * used as it is, one in memory of the host is copied. An input in any other memory is ITX_INVALID_ARGUMENT. */
  const char *device;
} itx_value_info;

ITX_API size_t itx_module_function_count(const itx_module *module);
/* A null pointer past the end. */
ITX_API const itx_function *itx_module_function_at(const itx_module *module, size_t index);
/* Finds a function by name; a null name means "main". The message lists the functions that exist. */
ITX_API itx_status itx_module_function(const itx_module *module, const char *name, const itx_function **function);

ITX_API const char *itx_function_name(const itx_function *function);
ITX_API size_t itx_function_input_count(const itx_function *function);
ITX_API size_t itx_function_output_count(const itx_function *function);
/* A null pointer past the end. */
ITX_API const itx_value_info *itx_function_input(const itx_function *function, size_t index);
ITX_API const itx_value_info *itx_function_output(const itx_function *function, size_t index);
/* Finds the position of an input by name. The message lists the inputs that exist. */
ITX_API itx_status itx_function_input_index(const itx_function *function, const char *name, size_t *index);
ITX_API itx_status itx_function_output_index(const itx_function *function, const char *name, size_t *index);
/* Returns a JSON object: metadata of the model that the importer kept, such as class labels. */
ITX_API const char *itx_function_metadata(const itx_function *function);

/* ---- Calls ------------------------------------------------------------------------------------------------ */

/* Runs a function. inputs[i] belongs to the i-th input; null where it is optional, or past input_count.
 * outputs receives a new tensor for each of the function's outputs (output_count must be their number), in memory of
 * the host; on an error none is made. */
ITX_API itx_status itx_invoke(const itx_function *function, itx_tensor *const *inputs, size_t input_count,
                              itx_tensor **outputs, size_t output_count);

typedef struct itx_invoke_options {
  size_t struct_bytes; /* sizeof(itx_invoke_options): lets the structure grow */
  /* [output_device_count], which is the number of outputs: the device in whose memory each one is wanted, null for that
   * of the host. Null: all are wanted in memory of the host. An output is copied unless it is made there. */
  const itx_device *const *output_devices;
  size_t output_device_count;
  /* Called on the call's thread, before each kernel and in each iteration of a loop; may be null. Non-zero ends the
   * call with ITX_CANCELLED when the work that has begun is done. What the call has written to states stays. */
  int32_t (*cancelled)(void *data);
  void *cancelled_data;
} itx_invoke_options;
/* The same with options, which may be null. */
ITX_API itx_status itx_invoke_with(const itx_function *function, const itx_invoke_options *options,
                                   itx_tensor *const *inputs, size_t input_count, itx_tensor **outputs,
                                   size_t output_count);

/* Checks the inputs, starts the call on another thread and returns. The inputs' handles may be freed at once, their
 * memory must not change before the call is done. */
ITX_API itx_status itx_invoke_start(const itx_function *function, itx_tensor *const *inputs, size_t input_count,
                                    itx_pending **pending);
ITX_API itx_status itx_invoke_start_with(const itx_function *function, const itx_invoke_options *options,
                                         itx_tensor *const *inputs, size_t input_count, itx_pending **pending);
/* Returns non-zero if itx_pending_wait will not block, and for a null pointer. */
ITX_API int32_t itx_pending_done(const itx_pending *pending);
/* Waits until then, but for no longer than this; returns the same. */
ITX_API int32_t itx_pending_done_within(const itx_pending *pending, uint64_t microseconds);
/* Waits, gives the outputs as itx_invoke does, and frees `pending` in any case. Errors of the work are returned here:
 * ITX_DEVICE_LOST, ITX_OUT_OF_MEMORY, … If outputs is null, results are dropped. ITX_INVALID_ARGUMENT in a child of a
 * fork if the call was not done at the fork. */
ITX_API itx_status itx_pending_wait(itx_pending *pending, itx_tensor **outputs, size_t output_count);
/* Ends the call once the work that has begun is done, without waiting for it: itx_pending_wait returns ITX_CANCELLED,
 * unless the call was done before. Only calls of functions can be cancelled. A null pointer is allowed. */
ITX_API void itx_pending_cancel(itx_pending *pending);
/* Frees `pending` without waiting; a null pointer is allowed. The work goes on, its results are dropped. What it uses,
 * the memory of inputs and the module among it, lives until it is done. */
ITX_API void itx_pending_free(itx_pending *pending);

/* ---- Sessions ---------------------------------------------------------------------------------------------- */

/* Functions may keep tensors from call to call: states, such as those of a recurrent network, which are none of their
 * inputs and outputs. A session has a value of each state of a module, at first the initial one; several sessions of a
 * module do not see each other. Calls of one session are done one after another, whichever threads they come from; one
 * that fails or is cancelled leaves the states as they were. Functions without states may be called with a session
 * too; itx_invoke refuses functions that change states. */
typedef struct itx_session itx_session;

/* Makes a session. It takes no memory before a call changes a state. It may outlive the module's handle, but calls need
 * one of its functions. */
ITX_API itx_status itx_session_create(const itx_module *module, itx_session **session);
/* Frees the handle; a null pointer is allowed. A call that has begun goes on. */
ITX_API void itx_session_free(itx_session *session);
/* The states of a module, by name, in alphabetical order. The name is a null pointer past the end. */
ITX_API size_t itx_module_state_count(const itx_module *module);
ITX_API const char *itx_module_state_name(const itx_module *module, size_t index);
/* Runs a function as itx_invoke_with does, on the states of the session, and keeps the new ones. */
ITX_API itx_status itx_session_invoke(itx_session *session, const itx_function *function,
                                      const itx_invoke_options *options, itx_tensor *const *inputs, size_t input_count,
                                      itx_tensor **outputs, size_t output_count);
/* Gives all states their initial values. */
ITX_API itx_status itx_session_reset(itx_session *session);
/* Gives a copy of a state in memory of the host. ITX_NOT_FOUND lists the states that exist. */
ITX_API itx_status itx_session_read(itx_session *session, const char *state, itx_tensor **tensor);
/* Replaces a state by a copy of a tensor, which has the state's element type and sizes. */
ITX_API itx_status itx_session_write(itx_session *session, const char *state, const itx_tensor *tensor);

/* ---- Caches of language models ----------------------------------------------------------------------------- */

/* A language model is a function "step", which does one forward step: it takes new tokens of several sequences, in any
 * mixture of prompts, parts of prompts and single tokens, and keeps the state for later tokens in the inputs with
 * is_state. A cache is the memory of that state: pages, each for a number of tokens of a sequence (state whose first
 * size is "pages"), and a slot for each sequence (state whose first size is "sequences"; it belongs to the page of the
 * last token). Forked sequences share the pages of their common beginning; a shared page is copied before it is written
 * to.
 *
 * The short form:
 *   itx_cache_options options = {.struct_bytes = sizeof(options), .sequences = 1};
 *   itx_cache *cache; itx_sequence *sequence; itx_tensor *logits;
 *   itx_cache_create(module, NULL, &options, &cache);
 *   itx_sequence_create(cache, &sequence);
 *   itx_chunk chunk = {sequence, prompt, prompt_count, 1};
 *   itx_cache_step(cache, &chunk, 1, &logits);                      // f32 [1, vocabulary], after the prompt's last
 *
 * Threads: calls on a cache and on its sequences are done one after another, whichever threads they come from. Fork: a
 * child may use a cache on which no call was running at the fork; what it writes is its own. */
typedef struct itx_cache itx_cache;
typedef struct itx_sequence itx_sequence;

typedef struct itx_cache_options {
  size_t struct_bytes; /* sizeof(itx_cache_options): lets the structure grow */
  int64_t sequences;   /* the most there may be at a time; 0: 1 */
  int64_t pages;       /* of all sequences together; 0: what `bytes` is enough for, and no more than they can use */
  uint64_t bytes;      /* the most memory that the cache may take; 0: no limit, for pages 0 half of what is available on
                          the host, or half of a device's memory if that holds state and is less */
  /* Where sequences that the cache evicts to make room keep their state, instead of losing it: memory of the host, then
   * files in a folder (without names: nothing is left of them). They are moved back when they are used again, which is
   * much faster than computing their tokens. If there is no room, those that were used least recently are evicted. */
  const char *spill_folder;    /* null: no files */
  uint64_t spill_memory_bytes; /* 0: none */
  uint64_t spill_file_bytes;   /* 0: as many as the disk has */
} itx_cache_options;

typedef struct itx_cache_info {
  size_t struct_bytes;     /* sizeof(itx_cache_info), set by the caller */
  uint64_t bytes;          /* of all state; taken from the machine as it is first used */
  uint64_t page_bytes;     /* of one page in all state */
  uint64_t sequence_bytes; /* of one sequence's slot in all state */
  int64_t pages;
  int64_t free_pages;
  int64_t page_tokens; /* tokens of a sequence in a page */
  int64_t sequences;
  int64_t free_sequences;
  int64_t context; /* the most tokens of a sequence */
  int64_t vocabulary;
  int64_t candidates; /* tokens that itx_cache_candidates gives for each row; 0: it gives none */
  int64_t spilled_sequences;
  uint64_t spilled_bytes;
  /* All sequences that were evicted for want of room to spill them; itx_cache_spill_status says why the last was. */
  int64_t lost_sequences;
  /* Of the pipeline that the ranks are: so many steps may be computed at the same time. Else 1, also where ranks have
   * several stages each: a step is then computed in parts at the same time. */
  int64_t stages;
} itx_cache_info;

/* Gives the bytes of a cache with these options. function: name, null means "step"; options may be null: one sequence
 * as long as the model's context. ITX_INVALID_ARGUMENT if the function is not a step function, or if the pages take
 * more than `bytes`. */
ITX_API itx_status itx_cache_bytes_needed(const itx_module *module, const char *function,
                                          const itx_cache_options *options, uint64_t *bytes);
/* Makes a cache. ITX_OUT_OF_MEMORY names the needed and the available bytes if the machine or the cgroup has too few.
 * The cache keeps the module: its handle may be freed. */
ITX_API itx_status itx_cache_create(const itx_module *module, const char *function, const itx_cache_options *options,
                                    itx_cache **cache);
/* Frees the handle; the memory lives as long as a sequence. A null pointer is allowed. */
ITX_API void itx_cache_free(itx_cache *cache);
ITX_API itx_status itx_cache_get_info(const itx_cache *cache, itx_cache_info *info);
/* Returns the error with which a sequence could not be spilled, the last of them; ITX_OK if none failed. */
ITX_API itx_status itx_cache_spill_status(const itx_cache *cache);
/* Returns how many tokens of a prompt of so many a call best takes. Larger parts need more memory; smaller ones read
 * the weights more often. Ranks that are stages of a pipeline compute different parts at the same time, if the calls of
 * all parts but the last have an output_count of 0; where they have several stages each, calls are computed in parts.
 */
ITX_API int64_t itx_cache_prefill_tokens(const itx_cache *cache, int64_t prompt_tokens);

/* Makes a sequence without tokens. ITX_CACHE_FULL if all sequences are in use. */
ITX_API itx_status itx_sequence_create(itx_cache *cache, itx_sequence **sequence);
/* Gives its pages back; a null pointer is allowed. */
ITX_API void itx_sequence_free(itx_sequence *sequence);
/* Returns the sequence's tokens in the cache; 0 if it was evicted. */
ITX_API int64_t itx_sequence_length(const itx_sequence *sequence);
/* Copies the first `capacity` of its tokens, also of an evicted sequence; `count` is the number of all its tokens. */
ITX_API itx_status itx_sequence_tokens(const itx_sequence *sequence, int64_t *tokens, size_t capacity, size_t *count);
/* Makes another sequence with the same tokens, which shares their pages. ITX_CACHE_FULL if all sequences are in use. */
ITX_API itx_status itx_sequence_fork(const itx_sequence *sequence, itx_sequence **child);
/* Drops the tokens from `length` on. *kept, unless null, is the new length. It is less than `length` if not all can be
 * kept (0 for an evicted sequence; a multiple of page_tokens if the slot belonged to a later page); the tokens from
 * there on must be given again. If `kept` is null, that is an error. */
ITX_API itx_status itx_sequence_truncate(itx_sequence *sequence, int64_t length, int64_t *kept);
/* Gives its pages back and keeps its tokens for itx_sequence_tokens. To continue, truncate it to 0 and give the tokens
 * again. */
ITX_API itx_status itx_sequence_evict(itx_sequence *sequence);
/* If not 0, the cache may evict the sequence when pages run out, or spill it; it takes the least recently used one
 * first. A spilled sequence is moved back by a step, a fork, itx_sequence_save and itx_sequence_send, which may evict
 * others, and return ITX_CACHE_FULL or ITX_IO_ERROR. */
ITX_API itx_status itx_sequence_set_evictable(itx_sequence *sequence, int32_t evictable);
ITX_API int32_t itx_sequence_is_evicted(const itx_sequence *sequence);
/* Writes tokens and state to a file, which appears when it is complete. */
ITX_API itx_status itx_sequence_save(const itx_sequence *sequence, const char *path);
/* Makes a sequence with the contents of such a file. ITX_INVALID_ARGUMENT if another artifact wrote it, ITX_CORRUPT if
 * it is damaged, ITX_CACHE_FULL if there is no room. The hash finds damage, it is no signature. */
ITX_API itx_status itx_sequence_restore(itx_cache *cache, const char *path, itx_sequence **sequence);

/* Hands a sequence over to another process: one computes the prompt and sends, another receives and decodes. `socket`
 * is connected to the other process, a stream socket of any family; it stays open, and more sequences or other data may
 * follow. The two artifacts may differ in what they were compiled for: device, precision of weights, elements of caches
 * of 16 and 32 bits, int8 and int4, tokens of a page and their order; both must be made from the same model. Send
 * returns when the other process has the sequence, which the sender keeps. No silence of the other process is longer
 * than timeout_s (0 or more). Receive makes a new sequence, or none at all. ITX_INVALID_ARGUMENT says what the
 * artifacts differ in (another model, caches in fp8 that are not the same); ITX_IO_ERROR that the connection ended or
 * timed out, ITX_CORRUPT that what came is damaged, ITX_CACHE_FULL that there is no room. A connection on which that
 * happened can only be closed. The hash finds damage, it is no signature: connect only with processes that you trust.
 */
ITX_API itx_status itx_sequence_send(const itx_sequence *sequence, int32_t socket, double timeout_s);
ITX_API itx_status itx_sequence_receive(itx_cache *cache, int32_t socket, double timeout_s, itx_sequence **sequence);
/* The same from the ranks of a world, each of which sends its part of one sequence to each rank that receives: sockets
 * that are connected to all of them. A rank keeps what it needs of the parts. All senders send to the receiving ranks
 * in one order. ITX_INVALID_ARGUMENT names what is in none of the parts. */
ITX_API itx_status itx_sequence_receive_parts(itx_cache *cache, const int32_t *sockets, size_t count, double timeout_s,
                                              itx_sequence **sequence);

/* New tokens of one sequence. */
typedef struct itx_chunk {
  itx_sequence *sequence;
  const int64_t *tokens;
  int64_t token_count;  /* at least 1 */
  int64_t output_count; /* logits after the last so many of them are wanted: 0, 1 to go on, token_count for all */
} itx_chunk;

/* Appends tokens to sequences, each at most once in a call. *logits: f32 [sum of output_count, vocabulary] in the order
 * of the chunks, null if none are wanted (logits may be null then).
 * Errors: ITX_INVALID_ARGUMENT (a token outside of the vocabulary, a sequence longer than the model's context, …),
 * ITX_CACHE_FULL, ITX_EVICTED. The sequences of the call are then unchanged; others that were evicted to make room stay
 * evicted. */
ITX_API itx_status itx_cache_step(itx_cache *cache, const itx_chunk *chunks, size_t chunk_count, itx_tensor **logits);
/* The same, with logits in the memory of the device that computes them. */
ITX_API itx_status itx_cache_step_on_device(itx_cache *cache, const itx_chunk *chunks, size_t chunk_count,
                                            itx_tensor **logits);
/* Appends tokens like itx_cache_step, and gives the logits later. Ranks that are stages of a pipeline compute different
 * steps at the same time: start as many as there are stages (itx_cache_info.stages), each of other sequences, and start
 * the next step of some sequences when you have waited for their last. Elsewhere the step is computed at once. Stages
 * must compute logits in memory of the host (ITX_UNSUPPORTED). All ranks start and wait in the same order; a rank that
 * fails ends the world. */
typedef struct itx_step itx_step;
ITX_API itx_status itx_cache_step_start(itx_cache *cache, const itx_chunk *chunks, size_t chunk_count, itx_step **step);
/* Waits, gives the logits as itx_cache_step does, and frees `step` in any case. */
ITX_API itx_status itx_step_wait(itx_step *step, itx_tensor **logits);
/* Frees `step` without waiting; a null pointer is allowed. The tokens are appended, the logits dropped. */
ITX_API void itx_step_free(itx_step *step);

/* Gives the likeliest tokens of rows of such logits, in memory of the host, so that logits need not be copied there.
 * temperatures: one for each row, above 0.
 * *values: f32 [rows, candidates], the largest logits of each row, the largest first; of equal ones that of the lower
 * token comes first, and NaN counts as larger than any number.
 * *tokens: i32 [rows, candidates], the tokens that have them.
 * *sums: f32 [rows, 2], sums over all tokens of exp((logit - values[row][0]) / t) with t = 1 and with the row's
 * temperature. The token of values[row][k] has the probability exp((values[row][k] - values[row][0]) / t) / sum.
 * ITX_UNSUPPORTED if itx_cache_info.candidates is 0: logits are in memory of the host then, or the artifact is of an
 * older compiler. */
ITX_API itx_status itx_cache_candidates(itx_cache *cache, const itx_tensor *logits, const float *temperatures,
                                        itx_tensor **values, itx_tensor **tokens, itx_tensor **sums);

/* ---- Worlds ----------------------------------------------------------------------------------------------- */

/* Processes that run a model together: ranks, which exchange data through shared memory on one host, and by TCP between
 * hosts. Loading a module that was compiled for several ranks joins the world of the environment, so that these
 * functions are for programs that start ranks in another way, or that exchange data of their own.
 *
 * All ranks call the same functions with the same sizes in the same order. Data are in memory of the host, at any
 * alignment. A function returns when this rank's part is done. If a rank dies, leaves, hangs or does something else,
 * the functions of all others return an error that names it, and the world cannot be used any more. No rank waits
 * longer for another one than the deadline says. Nothing of a world is left when its processes have ended, however they
 * end. */
typedef struct itx_world itx_world;

typedef struct itx_world_options {
  size_t struct_bytes; /* sizeof(itx_world_options): lets the structure grow */
  int32_t size;        /* ranks, 1 to 256; 0: size, rank and address are those of the environment */
  int32_t rank;
  const char *address; /* "local:NAME", the same for all ranks and for no other world of this host; or "tcp:HOST:PORT",
                        * where rank 0 listens, for ranks on several hosts */
  double deadline_s;   /* how long a rank waits for another; 0: ITX_WORLD_DEADLINE_S, or 300 */
  const char *token_file; /* of a world of several hosts: a file with the same secret for all ranks, of 16 to 4096
                           * characters; null: that of ITX_WORLD_TOKEN_FILE */
} itx_world_options;

/* Waits until all ranks have joined. options may be null. The environment says ITX_WORLD_SIZE, ITX_WORLD_RANK and
 * ITX_WORLD_ADDRESS, and ITX_WORLD_TOKEN_FILE, as intarsia-run --world sets them, or is that of mpirun. A process is in
 * one world at a time: one that is in it already gets another handle. ITX_NOT_FOUND if the environment has no world;
 * ITX_RANK_LOST names the ranks that did not come. A child of a fork is in no world. */
ITX_API itx_status itx_world_join(const itx_world_options *options, itx_world **world);
/* Makes a handle of a part of the world: its ranks are numbered from 0 on in the order of `ranks`. All ranks of the
 * world call this. The handle of a process that is not in the group has rank -1, and can only be freed. */
ITX_API itx_status itx_world_group(itx_world *world, const int32_t *ranks, size_t count, itx_world **group);
/* Frees the handle; a null pointer is allowed. The process leaves the world when its last handle and the last module
 * that uses it are freed. */
ITX_API void itx_world_free(itx_world *world);
/* -1 for a null handle. */
ITX_API int32_t itx_world_rank(const itx_world *world);
ITX_API int32_t itx_world_size(const itx_world *world);

typedef ITX_ENUM(itx_reduction){ITX_SUM = 0, ITX_MAXIMUM = 1, ITX_SUM_INT8 = 2} itx_reduction;

/* destination[i]: the sources' elements i combined in the order of the ranks, with the same bits on all of them. f32,
 * f64, f16, bf16 (both summed in f32 and rounded once), i32 and i64. The destination may be the source. Between hosts
 * the elements of each host's ranks are combined first, then those of the hosts.
 * ITX_SUM_INT8 is the sum of f32 whose messages between hosts are rounded to 8 bits, with a scale for each 32 elements:
 * each host's part, and the sum of more than 64 KiB, is off by at most the largest of the 32, divided by 254. On one
 * host it is ITX_SUM. */
ITX_API itx_status itx_world_all_reduce(itx_world *world, itx_reduction reduction, itx_dtype dtype, void *destination,
                                        const void *source, size_t elements);
/* The rank's part of that: the destination has `elements` / size elements. */
ITX_API itx_status itx_world_reduce_scatter(itx_world *world, itx_reduction reduction, itx_dtype dtype,
                                            void *destination, const void *source, size_t elements);
/* Puts the ranks' sources one after another. counts[size]: elements of each rank; null: all give `elements`. */
ITX_API itx_status itx_world_all_gather(itx_world *world, itx_dtype dtype, void *destination, const void *source,
                                        size_t elements, const size_t *counts);
/* Sends send_counts[i] elements, one part after another, to rank i, and receives receive_counts[i] from it. */
ITX_API itx_status itx_world_all_to_all(itx_world *world, itx_dtype dtype, void *destination,
                                        const size_t *receive_counts, const void *source, const size_t *send_counts);
/* Copies data of one rank to all. */
ITX_API itx_status itx_world_broadcast(itx_world *world, int32_t root, itx_dtype dtype, void *data, size_t elements);
/* Sends to the other rank of a group of two, and receives from it. */
ITX_API itx_status itx_world_send(itx_world *world, itx_dtype dtype, const void *source, size_t elements);
ITX_API itx_status itx_world_receive(itx_world *world, itx_dtype dtype, void *destination, size_t elements);
/* Returns when all ranks have come. */
ITX_API itx_status itx_world_barrier(itx_world *world);

/* ---- Profiles --------------------------------------------------------------------------------------------- */

/* Starts recording every kernel launch of the process; an earlier record is dropped. */
ITX_API itx_status itx_profile_start(void);
/* Stops, and writes Chrome-trace JSON (chrome://tracing, https://ui.perfetto.dev): one event a launch, with the
 * kernel's name, its location in the user's model, tiles and threads. Each queue of a device other than the host's CPU
 * has a track of its own. With a null path drops the record. */
ITX_API itx_status itx_profile_stop(const char *path);

#ifdef __cplusplus
}
#endif
#endif
