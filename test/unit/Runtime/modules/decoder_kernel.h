/*===- decoder_kernel.h - What the language models of the tests compute ---------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * logits[o, v] = (v + 1) * (sum over j of (token[j] + 1) * (j + 1)^2) mod 97, j up to the token's position in its
 * sequence. Pages hold four tokens each.
 * step:   keys[pages, 4] hold token + 1.
 * tailed: as well, full pages are in packed[pages, 2, 4], what is not full in tail[sequences, 4], as a cache does whose
 *         pages are quantized; where both do not tell the same as keys, logits are -1.
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_TEST_UNIT_RUNTIME_MODULES_DECODERKERNEL_H
#define INTARSIA_TEST_UNIT_RUNTIME_MODULES_DECODERKERNEL_H

#include <stdint.h>

enum { page = 4, vocabulary = 16 };

/* buffers: input_ids, positions, sequences, page_table, output_tokens, keys, packed (null for step), tail (null for
 * step), logits. sizes: tokens, pages_of_a_sequence, outputs. */
static void decode(void *const *buffers, const int64_t *sizes) {
  const int64_t *ids = buffers[0], *positions = buffers[1], *sequences = buffers[2], *table = buffers[3];
  const int64_t *outputs = buffers[4];
  int64_t *keys = buffers[5], columns = sizes[1];
  int16_t *packed = buffers[6];
  float *tail = buffers[7], *logits = buffers[8];
  for (int64_t t = 0; t < sizes[0]; ++t) {
    const int64_t *row = table + sequences[t] * columns;
    int64_t position = positions[t], own = row[position / page], slot = position % page, sum = 0, other = 0;
    float *rest = tail ? tail + sequences[t] * page : 0;
    keys[own * page + slot] = ids[t] + 1;
    if (rest) {
      for (int k = 0; slot == 0 && k < page; ++k)
        rest[k] = -5;
      rest[slot] = (float)(ids[t] + 1);
    }
    for (int k = 0; rest && slot == page - 1 && k < page; ++k)
      packed[(own * 2 + 1) * page + k] = (int16_t)rest[k];
    for (int64_t j = 0; j <= position; ++j) {
      int64_t of = row[j / page];
      sum += keys[of * page + j % page] * (j + 1) * (j + 1);
      if (rest)
        other += (j / page < (position + 1) / page ? packed[(of * 2 + 1) * page + j % page] : (int64_t)rest[j % page]) *
                 (j + 1) * (j + 1);
    }
    for (int64_t o = 0; o < sizes[2]; ++o)
      for (int64_t v = 0; outputs[o] == t && v < vocabulary; ++v)
        logits[o * vocabulary + v] = rest && other != sum ? -1.0f : (float)((v + 1) * sum % 97);
  }
}

#endif
