//===- WarpgroupMatrices.h - Products of matrices by four warps of Hopper ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// wgmma multiplies 64 rows, which are registers of four warps, by a matrix in shared memory, and goes on while these do
// other work (PTX ISA, "Asynchronous warpgroup-level matrix instructions"). Fragments lie as those of Matrices.h: a
// warp has 16 of the rows. Only kernels for Hopper may call this: other GPUs have no such instruction.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_WARPGROUPMATRICES_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_WARPGROUPMATRICES_H

#include "Matrices.h"
#include "SwizzledPanels.h"

/// Has matrix instructions see what this thread wrote to shared memory before; a barrier has to follow.
inline void fenceSharedWrites() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Has the next products see the registers as they are now.
inline void fenceRegisters() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes a group of the products since the last one.
inline void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Registers of so many sums of 16 columns: as text, and as operands.
#define ITX_REGISTERS_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ITX_REGISTERS_2 ITX_REGISTERS_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ITX_REGISTERS_3 ITX_REGISTERS_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define ITX_REGISTERS_4 ITX_REGISTERS_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define ITX_REGISTERS_5 ITX_REGISTERS_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ITX_REGISTERS_6 ITX_REGISTERS_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ITX_REGISTERS_7 ITX_REGISTERS_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define ITX_REGISTERS_8 ITX_REGISTERS_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define ITX_BLOCK(mode, sum)                                                                                           \
  mode((sum)[0]), mode((sum)[1]), mode((sum)[2]), mode((sum)[3]), mode((sum)[4]), mode((sum)[5]), mode((sum)[6]),      \
      mode((sum)[7])
#define ITX_BLOCKS_1(mode, sums) ITX_BLOCK(mode, (sums)[0])
#define ITX_BLOCKS_2(mode, sums) ITX_BLOCKS_1(mode, sums), ITX_BLOCK(mode, (sums)[1])
#define ITX_BLOCKS_3(mode, sums) ITX_BLOCKS_2(mode, sums), ITX_BLOCK(mode, (sums)[2])
#define ITX_BLOCKS_4(mode, sums) ITX_BLOCKS_3(mode, sums), ITX_BLOCK(mode, (sums)[3])
#define ITX_BLOCKS_5(mode, sums) ITX_BLOCKS_4(mode, sums), ITX_BLOCK(mode, (sums)[4])
#define ITX_BLOCKS_6(mode, sums) ITX_BLOCKS_5(mode, sums), ITX_BLOCK(mode, (sums)[5])
#define ITX_BLOCKS_7(mode, sums) ITX_BLOCKS_6(mode, sums), ITX_BLOCK(mode, (sums)[6])
#define ITX_BLOCKS_8(mode, sums) ITX_BLOCKS_7(mode, sums), ITX_BLOCK(mode, (sums)[7])

/// Makes use(blocks, columns) the case of each number of blocks of 16 columns.
#define ITX_CASES(use)                                                                                                 \
  case 1:                                                                                                              \
    use(1, "16");                                                                                                      \
    break;                                                                                                             \
  case 2:                                                                                                              \
    use(2, "32");                                                                                                      \
    break;                                                                                                             \
  case 3:                                                                                                              \
    use(3, "48");                                                                                                      \
    break;                                                                                                             \
  case 4:                                                                                                              \
    use(4, "64");                                                                                                      \
    break;                                                                                                             \
  case 5:                                                                                                              \
    use(5, "80");                                                                                                      \
    break;                                                                                                             \
  case 6:                                                                                                              \
    use(6, "96");                                                                                                      \
    break;                                                                                                             \
  case 7:                                                                                                              \
    use(7, "112");                                                                                                     \
    break;                                                                                                             \
  default:                                                                                                             \
    use(8, "128")

/// One instruction. The predicate says whether the sums so far are added; neither factor is negated.
#define ITX_MULTIPLY(blocks, columns, element, mode, adds, transposes)                                                 \
  asm volatile("{.reg .pred p; setp." adds ".u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" columns                   \
               "k16.f32." element "." element " {" ITX_REGISTERS_##blocks                                              \
               "}, {%[a0], %[a1], %[a2], %[a3]}, %[b], p, 1, 1, " transposes ";}"                                      \
               : ITX_BLOCKS_##blocks(mode, sums)                                                                       \
               : [a0] "r"(left.words[0]), [a1] "r"(left.words[1]), [a2] "r"(left.words[2]), [a3] "r"(left.words[3]),   \
                 [b] "l"(right)                                                                                        \
               : "memory")
#define ITX_MULTIPLY_KIND(blocks, columns, mode, adds, transposes)                                                     \
  if (kind == ElementKind::F16)                                                                                        \
    ITX_MULTIPLY(blocks, columns, "f16", mode, adds, transposes);                                                      \
  else                                                                                                                 \
    ITX_MULTIPLY(blocks, columns, "bf16", mode, adds, transposes)

/// Blocks of 16 columns of scores, and the most of sums.
constexpr int scoreBlocks = 4, largestBlocks = 8;

/// Begins to multiply 16 columns of `left` by those of 64 rows of shared memory. The product is added to the scores, or
/// takes their place if it is the first.
inline void beginScores(SumMatrix (&sums)[scoreBlocks], const LeftMatrix &left, uint64_t right, int64_t kind,
                        bool isFirst) {
  if (isFirst) {
    ITX_MULTIPLY_KIND(4, "64", "=f", "ne", "0");
  } else {
    ITX_MULTIPLY_KIND(4, "64", "+f", "eq", "0");
  }
}

/// Begins to multiply 16 columns of `left` by 16 rows of shared memory, which have `blocks` blocks of columns, and to
/// add the product to the sums.
inline void beginSums(SumMatrix (&sums)[largestBlocks], int64_t blocks, const LeftMatrix &left, uint64_t right,
                      int64_t kind) {
#define ITX_MULTIPLY_ROWS(blocks, columns) ITX_MULTIPLY_KIND(blocks, columns, "+f", "eq", "1")
  switch (blocks) { ITX_CASES(ITX_MULTIPLY_ROWS); }
#undef ITX_MULTIPLY_ROWS
}

// Scores and sums are operands of what waits for them: nothing reads them before.

/// Waits for the scores, and if `othersGoOn` not for the group of products that began last.
inline void waitForScores(SumMatrix (&sums)[scoreBlocks], bool othersGoOn) {
  if (othersGoOn)
    asm volatile("wgmma.wait_group.sync.aligned 1;" : ITX_BLOCKS_4("+f", sums)::"memory");
  else
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ITX_BLOCKS_4("+f", sums)::"memory");
}
/// Has what is computed of the scores come after the waits before. The factors of a product are registers that it reads
/// until somebody has waited for it: rounded scores must not take their place before.
inline void useScoresFromHere(SumMatrix (&scores)[scoreBlocks]) { asm volatile("" : ITX_BLOCKS_4("+f", scores)); }
/// Waits for all products.
inline void waitForSums(SumMatrix (&sums)[largestBlocks], int64_t blocks) {
#define ITX_WAIT(blocks, columns)                                                                                      \
  asm volatile("wgmma.wait_group.sync.aligned 0;" : ITX_BLOCKS_##blocks("+f", sums)::"memory")
  switch (blocks) { ITX_CASES(ITX_WAIT); }
#undef ITX_WAIT
}

#undef ITX_MULTIPLY_KIND
#undef ITX_MULTIPLY
#undef ITX_CASES

/// Returns the descriptor of panels (PTX ISA, "Matrix descriptor format"): the address, the bytes from one panel to the
/// next and those from one group of eight rows to the next, all in units of 16 bytes, and the swizzle.
inline uint64_t descriptorOf(const SwizzledPanels &panels, Shared16 at) {
  uint64_t rowBytes = panels.width() * 2, swizzle = rowBytes == 128 ? 1 : rowBytes == 64 ? 2 : 3;
  uint64_t panel = panels.elementsOfPanel() * 2 / 16, group = 8 * rowBytes / 16;
  return (uint64_t(at) >> 4 & 0x3fff) | panel << 16 | group << 32 | swizzle << 62;
}
/// Returns the descriptor of what lies `elements` behind.
inline uint64_t advance(uint64_t descriptor, int64_t elements) { return descriptor + elements * 2 / 16; }

#endif
