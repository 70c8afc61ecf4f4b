//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_METALIUMTILES_H
#define INTARSIA_LIB_TARGET_WAFER_METALIUMTILES_H

namespace intarsia::wafer {

/// The functions with which kernels compute on whole buffers. A result is read again only when it is stored: the
/// engines of a core run ahead of each other.
inline constexpr const char *metaliumTiles = R"(#pragma once

#include "compute_kernel_api.h"
#include "compute_kernel_api/common.h"
#include "compute_kernel_api/eltwise_binary.h"
#include "compute_kernel_api/eltwise_unary/fill.h"
#include "compute_kernel_api/eltwise_unary/gelu.h"
#include "compute_kernel_api/eltwise_unary/relu.h"
#include "compute_kernel_api/matmul.h"
#include "compute_kernel_api/tile_move_copy.h"

namespace NAMESPACE {

inline uint32_t stored; // the circular buffer of tokens for results that are stored

inline void begin(uint32_t any, uint32_t tokens) {
  stored = tokens;
  binary_op_init_common(any, any, any);
}

inline void wait_until_stored() {
  cb_reserve_back(stored, 1);
  cb_push_back(stored, 1);
  cb_wait_front(stored, 1);
  cb_pop_front(stored, 1);
}

template <typename Compute> void for_tiles(uint32_t to, uint32_t tiles, Compute compute) {
  pack_reconfig_data_format(to);
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    tile_regs_acquire();
    compute(tile);
    tile_regs_commit();
    tile_regs_wait();
    pack_tile<true>(0, to, tile);
    tile_regs_release();
  }
  wait_until_stored();
}

// A tile is read in any case, so that nothing is stored before the buffer is free.
inline void load(uint32_t from, uint32_t tile) {
  copy_tile_to_dst_init_short(from);
  copy_tile(from, tile, 0);
}

inline void zero(uint32_t to, uint32_t tiles) {
  reconfig_data_format_srca(to);
  for_tiles(to, tiles, [&](uint32_t tile) {
    load(to, tile);
    fill_tile_init();
    fill_tile(0, 0.0f);
  });
}

inline void copy(uint32_t to, uint32_t from, uint32_t tiles) {
  reconfig_data_format_srca(from);
  for_tiles(to, tiles, [&](uint32_t tile) { load(from, tile); });
}

inline void add(uint32_t to, uint32_t with, uint32_t tiles) {
  reconfig_data_format(to, with);
  add_tiles_init(to, with);
  for_tiles(to, tiles, [&](uint32_t tile) { add_tiles(to, with, tile, tile, 0); });
}

inline void multiply(uint32_t to, uint32_t with, uint32_t tiles) {
  reconfig_data_format(to, with);
  mul_tiles_init(to, with);
  for_tiles(to, tiles, [&](uint32_t tile) { mul_tiles(to, with, tile, tile, 0); });
}

inline void silu(uint32_t to, uint32_t from, uint32_t tiles) {
  reconfig_data_format_srca(from);
  for_tiles(to, tiles, [&](uint32_t tile) {
    load(from, tile);
    silu_tile_init();
    silu_tile(0);
  });
}

inline void gelu(uint32_t to, uint32_t from, uint32_t tiles) {
  reconfig_data_format_srca(from);
  for_tiles(to, tiles, [&](uint32_t tile) {
    load(from, tile);
    gelu_tile_init<false>();
    gelu_tile<false>(0);
  });
}

inline void relu(uint32_t to, uint32_t from, uint32_t tiles) {
  reconfig_data_format_srca(from);
  for_tiles(to, tiles, [&](uint32_t tile) {
    load(from, tile);
    relu_tile_init();
    relu_tile(0);
  });
}

inline void tanh(uint32_t to, uint32_t from, uint32_t tiles) {
  reconfig_data_format_srca(from);
  for_tiles(to, tiles, [&](uint32_t tile) {
    load(from, tile);
    tanh_tile_init();
    tanh_tile(0);
  });
}

// C += A B, or A B^T, in tiles of 32 x 32.
template <bool transposed>
void multiply_tiles(uint32_t c, uint32_t a, uint32_t b, uint32_t rows, uint32_t columns, uint32_t depth) {
  for_tiles(c, rows * columns, [&](uint32_t tile) {
    uint32_t row = tile / columns, column = tile % columns;
    reconfig_data_format_srca(c);
    load(c, tile);
    reconfig_data_format(b, a);
    mm_init_short(a, b, transposed);
    for (uint32_t k = 0; k < depth; ++k)
      matmul_tiles(a, b, row * depth + k, transposed ? column * depth + k : k * columns + column, 0);
  });
}

} // namespace NAMESPACE
)";

} // namespace intarsia::wafer

#endif
