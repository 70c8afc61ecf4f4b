/*===- emulated_abi.h - What kernels for the emulated GPU and the runtime promise each other --------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The emulated GPU runs kernels of a GPU that are compiled for the host. Address spaces are gone: every pointer is an
 * address of the host. The ELF shared object of a variant exports
 *   - each function of its kernels, under its name, with protected visibility; all of its arguments are pointers or
 *     64-bit integers, at most ITX_EMULATED_ARGUMENTS of them, and it returns nothing,
 *   - const char *const itx_emulated_imports[n + 1], the names of the functions that it calls, the last one null, and
 *   - void *itx_emulated_functions[n], which loading fills with their addresses.
 * Apart from those it may only refer to memcpy, memmove and memset. It may import the functions below and those of C's
 * mathematics library.
 *
 * A function is called once for each thread of each block. The threads of a block take turns on one thread of the host:
 * a thread runs until it calls a function that waits for others. Calls that wait must therefore not be moved, merged or
 * duplicated across control flow that differs between threads (they are convergent), and nothing that another thread
 * writes may be kept in a register across one.
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_EMULATED_ABI_H
#define INTARSIA_EMULATED_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ITX_EMULATED_IMPORTS "itx_emulated_imports"
#define ITX_EMULATED_FUNCTIONS "itx_emulated_functions"

/* Largest number of arguments of a kernel function. */
#define ITX_EMULATED_ARGUMENTS 128

/* ---- Where a thread is ------------------------------------------------------------------------------------ */

/* The dimension is 0, 1 or 2. */
int32_t itx_emulated_thread_id(int32_t dimension);
int32_t itx_emulated_block_id(int32_t dimension);
int32_t itx_emulated_block_dim(int32_t dimension);
int32_t itx_emulated_grid_dim(int32_t dimension);
/* Threads of a block are numbered with dimension 0 the fastest; each warp_size() of them are a warp. */
int32_t itx_emulated_lane_id(void);
int32_t itx_emulated_warp_size(void);

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Address spaces, numbered as both LLVM targets of GPUs number them. */
enum {
  ITX_EMULATED_GENERIC = 0,  /* any of the following */
  ITX_EMULATED_GLOBAL = 1,   /* operands of the launch and its scratch */
  ITX_EMULATED_SHARED = 3,   /* shared memory of the block */
  ITX_EMULATED_CONSTANT = 4, /* variables of the object, which kernels only read */
  ITX_EMULATED_PRIVATE = 5   /* of one thread, on its stack; not checked */
};

/* Returns the shared memory of the block, aligned to 1024 bytes: static bytes first, then dynamic ones. Each block
 * begins with all of its bytes 0xff, which is NaN in each format of floating-point numbers. */
void *itx_emulated_shared(void);
/* Must be called before each load and store if one of them is imported. Ends the kernel with an error if the bytes are
 * not all in one operand, in the scratch, in shared memory or, for a load, in the object; or, for a load, if no thread
 * has written them to shared memory. */
void itx_emulated_load_check(const void *address, int64_t bytes, int32_t space);
void itx_emulated_store_check(void *address, int64_t bytes, int32_t space);

/* Copies 4, 8 or 16 bytes (on AMD's: 1, 2, 4, 12 or 16) to shared memory: the first `source_bytes` from the source, the
 * others are 0. The destination holds 0xff until the thread waits for the group that the copy is committed to. */
void itx_emulated_async_copy(void *destination, const void *source, int32_t bytes, int32_t source_bytes);
/* Makes a group of the thread's copies since the last commit. */
void itx_emulated_async_commit(void);
/* Lets copies land in the order of commits, until at most `groups` groups have not landed. Makes no other thread wait:
 * a barrier has to follow before others read the data. */
void itx_emulated_async_wait(int32_t groups);

/* ---- Barriers in shared memory, and copies that they count ------------------------------------------------- */

/* PTX's mbarriers: 8 bytes of shared memory, aligned to 8, that only these functions use. A phase ends when `count`
 * threads have arrived and all bytes that they said have come. */
void itx_emulated_mbarrier_init(void *barrier, int32_t count);
void itx_emulated_mbarrier_arrive(void *barrier);
void itx_emulated_mbarrier_arrive_expect(void *barrier, int32_t bytes);
/* Waits until the phase of this parity has ended: the first one has parity 0. */
void itx_emulated_mbarrier_wait(void *barrier, int32_t parity);
/* PTX's fence.proxy.async: tensor copies see the mbarriers that this thread has made, and matrix instructions of four
 * warps what it has written to shared memory. */
void itx_emulated_proxy_fence(void);
/* PTX's cp.async.bulk.tensor.2d of a box of the matrix that a tensor map of the launch describes, with its first
 * element at `column` and `row`; all of its bytes are counted by the barrier. The destination, aligned to 128 bytes,
 * holds 0xff until a thread waits for the barrier. */
void itx_emulated_tensor_copy(void *destination, const void *map, int32_t column, int32_t row, void *barrier);

/* ---- Threads that wait for each other --------------------------------------------------------------------- */

/* Waits for all threads of the block that have not returned. */
void itx_emulated_barrier(void);
/* Waits for the threads of the warp whose bits are set and which have not returned. The caller's bit must be set. */
void itx_emulated_warp_barrier(int64_t mask);

/* All threads of the warp that have not returned take part in each of the following. */

/* Returns the value of another lane, by the rules of PTX's shfl.sync: `width`, a power of two up to warp_size(), splits
 * the warp into segments. A lane gets its own value if the other lane is out of range or has returned. */
int32_t itx_emulated_shuffle_idx(int32_t value, int32_t lane, int32_t width);
int32_t itx_emulated_shuffle_up(int32_t value, int32_t offset, int32_t width);
int32_t itx_emulated_shuffle_down(int32_t value, int32_t offset, int32_t width);
int32_t itx_emulated_shuffle_xor(int32_t value, int32_t mask, int32_t width);

/* Bit 0 of the predicate counts. Threads that have returned are left out: their bit of a ballot is 0. */
int64_t itx_emulated_vote_ballot(int32_t predicate);
int32_t itx_emulated_vote_any(int32_t predicate);
int32_t itx_emulated_vote_all(int32_t predicate);

/* PTX's elect.sync: returns 1 in one thread of the warp, 0 in the others. */
int32_t itx_emulated_elect(void);
/* PTX's setmaxnreg: changes nothing. All warps of a group of four call it, with multiples of 8 from 24 to 256, of which
 * a multiprocessor must have enough for the whole block. */
void itx_emulated_set_registers(int32_t count);

/* PTX's ldmatrix of `count` (1, 2 or 4) 8x8 matrices of 16-bit elements, into `count` words of each lane. Lanes up to
 * 8 * count pass the address of a row in shared memory, aligned to 16 bytes. Warps of 32 threads only. */
void itx_emulated_ldmatrix(int32_t *result, const void *row, int32_t count, int32_t transposed);

/* D = A * B + C by the warp's matrix instruction `kind`. The fragments of a lane lie in memory as the instruction's
 * registers do, one after the other; result and accumulator may be the same memory. */
void itx_emulated_mma(int32_t kind, void *result, const void *a, const void *b, const void *accumulator);

/* The same by an instruction whose elements have scales by blocks along k. Each lane passes a word with bytes of scales
 * of A and one of B; selectors, the same in all lanes, say which lanes and bytes are used:
 *   PTX's mma with .block_scale   the byte-id, and behind its 8 bits the thread-id
 *   CDNA 4's mfma_scale           the byte of the word (op_sel) */
void itx_emulated_mma_scaled(int32_t kind, void *result, const void *a, const void *b, const void *accumulator,
                             int32_t scales_a, int32_t selector_a, int32_t scales_b, int32_t selector_b);

/* PTX's wgmma.mma_async of m64 and `columns` columns: adds A * B to the sums of this lane, `columns` / 2 of f32. `a`
 * and `b` are matrix descriptors of shared memory, whose rows follow the depth: 16 elements of 16 bits, or 32 of 8. It
 * is done at once: that a kernel waits before it reads the sums is not checked, but that it does before copies write to
 * the factors. */
enum { ITX_EMULATED_WGMMA_F16 = 0, ITX_EMULATED_WGMMA_BF16 = 1, ITX_EMULATED_WGMMA_E4M3 = 2 };
void itx_emulated_wgmma(float *sums, int64_t a, int64_t b, int32_t columns, int32_t element);
/* The same with the rows of A in registers: four words of each lane. If `transposed`, columns of B follow the depth.
 * All lanes of the warp take part, with the same matrix B. */
void itx_emulated_wgmma_registers(float *sums, const void *a, int64_t b, int32_t columns, int32_t bf16,
                                  int32_t transposed);
/* Makes a group of the warp's products since the last commit. */
void itx_emulated_wgmma_commit(void);
/* Waits with the other threads of the warp until at most `groups` groups are not done. Who writes to shared memory that
 * a product which is not done reads ends the kernel with an error. */
void itx_emulated_wgmma_wait(int64_t groups);

/* Ends the kernel with an error. */
void itx_emulated_trap(void);

/* ---- Kinds of matrix instructions ------------------------------------------------------------------------- */

/* Shape, type of the accumulator, type of A and B (one if both are the same). Layouts: PTX ISA, "Warp-level matrix
 * instructions"; AMD's CDNA3, RDNA3 and RDNA4 instruction set architecture manuals. */
enum itx_emulated_mma_kind {
  ITX_EMULATED_M16N8K16_F32_F16 = 1,
  ITX_EMULATED_M16N8K16_F32_BF16 = 2,
  ITX_EMULATED_M16N8K16_F16_F16 = 3,
  ITX_EMULATED_M16N8K8_F32_TF32 = 4,
  ITX_EMULATED_M16N8K32_I32_I8 = 5,
  ITX_EMULATED_M16N8K32_F32_E4M3 = 6,
  ITX_EMULATED_M16N8K32_F32_E5M2 = 7,
  ITX_EMULATED_M16N8K32_F32_E4M3_E5M2 = 8,
  ITX_EMULATED_M16N8K32_F32_E5M2_E4M3 = 9,
  ITX_EMULATED_M16N8K16_I32_I8 = 10,
  /* E2M1 with scales, for itx_emulated_mma_scaled: E8M0 for 32, E4M3 for 16. */
  ITX_EMULATED_M16N8K64_F32_MXFP4 = 11,
  ITX_EMULATED_M16N8K64_F32_NVFP4 = 12,

  /* CDNA, warps of 64 threads. */
  ITX_EMULATED_MFMA_16X16X16_F32_F16 = 64,
  ITX_EMULATED_MFMA_16X16X16_F32_BF16 = 65,
  ITX_EMULATED_MFMA_32X32X8_F32_F16 = 66,
  ITX_EMULATED_MFMA_32X32X8_F32_BF16 = 67,
  ITX_EMULATED_MFMA_16X16X32_I32_I8 = 68,
  ITX_EMULATED_MFMA_16X16X4_F32_F32 = 69,
  ITX_EMULATED_MFMA_32X32X16_I32_I8 = 70,
  /* Formats of 8 bits with one zero and no infinity, which gfx942 has. */
  ITX_EMULATED_MFMA_16X16X32_F32_E4M3FNUZ = 71,
  ITX_EMULATED_MFMA_16X16X32_F32_E5M2FNUZ = 72,
  /* From gfx950 on. */
  ITX_EMULATED_MFMA_16X16X32_F32_E4M3 = 73,
  ITX_EMULATED_MFMA_16X16X32_F32_E5M2 = 74,
  ITX_EMULATED_MFMA_16X16X32_F32_F16 = 75,
  ITX_EMULATED_MFMA_16X16X32_F32_BF16 = 76,
  ITX_EMULATED_MFMA_32X32X16_F32_F16 = 77,
  ITX_EMULATED_MFMA_32X32X16_F32_BF16 = 78,
  /* Up to gfx90a. */
  ITX_EMULATED_MFMA_16X16X16_I32_I8 = 79,
  /* gfx950, for itx_emulated_mma_scaled. */
  ITX_EMULATED_MFMA_SCALE_16X16X128_F32_MXFP4 = 80,

  /* RDNA 3, warps of 32 threads. Lanes 16 to 31 hold the same A and B as lanes 0 to 15. */
  ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_F16 = 96,
  ITX_EMULATED_WMMA_RDNA3_16X16X16_F32_BF16 = 97,
  ITX_EMULATED_WMMA_RDNA3_16X16X16_I32_I8 = 98,

  /* RDNA 4, warps of 32 threads. */
  ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_F16 = 112,
  ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_BF16 = 113,
  ITX_EMULATED_WMMA_RDNA4_16X16X16_I32_I8 = 114,
  ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E4M3 = 115,
  ITX_EMULATED_WMMA_RDNA4_16X16X16_F32_E5M2 = 116
};

#ifdef __cplusplus
}
#endif

#endif
