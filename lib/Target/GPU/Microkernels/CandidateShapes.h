//===- CandidateShapes.h - How rows of logits are divided among blocks -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by the emitter and the microkernels.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CANDIDATESHAPES_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CANDIDATESHAPES_H

namespace intarsia::gpu::candidates {

constexpr int threadsOfBlock = 256;
/// Logits that a thread has in its registers: all of their loads are on their way at once, and a row of 128,256 logits
/// has 63 parts, about half as many blocks as the largest GPUs have multiprocessors.
constexpr int elementsOfThread = 8;
constexpr int columnsOfPart = threadsOfBlock * elementsOfThread;
/// Entries of the list of a warp, of 8 bytes each: as many as nn.candidates may ask for.
constexpr int listSize = 64, bytesOfEntry = 8;
constexpr int mostTemperatures = 4;
/// The largest logit of a part, and a sum for each temperature.
constexpr int floatsOfPartSums = 1 + mostTemperatures;
/// Shared memory of a block: the lists and the sums of its warps, which have 32 threads or more.
constexpr int sharedBytesOfBlock = threadsOfBlock / 32 * (listSize * bytesOfEntry + 4 * floatsOfPartSums);

} // namespace intarsia::gpu::candidates

#endif
