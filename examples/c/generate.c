/*===- generate.c - Continue token ids with a compiled language model from C ----------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * usage: generate MODEL.itx COUNT PREFIX FIRST SECOND
 * Continues two texts that begin with the same tokens, each by its COUNT most likely ones. PREFIX, FIRST and SECOND are
 * token ids separated by commas; the prefix is computed and stored once.
 *===------------------------------------------------------------------------------------------------------===*/
#include <intarsia/runtime.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { most = 4096 };

static int failed(void) {
  fprintf(stderr, "error: %s\n", itx_last_error());
  return 1;
}

static int64_t read_ids(const char *text, int64_t *ids) {
  int64_t count = 0;
  char *end = (char *)text;
  while (*end && count < most) {
    ids[count++] = strtoll(end, &end, 10);
    end += *end == ',';
  }
  return count;
}

static int64_t largest(const float *row, int64_t width) {
  int64_t best = 0;
  for (int64_t i = 1; i < width; ++i)
    if (row[i] > row[best])
      best = i;
  return best;
}

int main(int argc, char **argv) {
  static int64_t prefix[most], prompts[2][most];
  itx_module *module;
  itx_cache *cache;
  itx_sequence *sequences[2];
  itx_tensor *logits;
  if (argc != 6) {
    fprintf(stderr, "usage: %s MODEL.itx COUNT PREFIX FIRST SECOND\n", argv[0]);
    return 2;
  }
  /* Room for two sequences and 64 pages. */
  itx_cache_options options = {.struct_bytes = sizeof(options), .sequences = 2, .pages = 64};
  itx_cache_info info = {.struct_bytes = sizeof(info)};
  uint64_t bytes;
  if (itx_module_load(argv[1], NULL, &module) != ITX_OK ||
      itx_cache_bytes_needed(module, NULL, &options, &bytes) != ITX_OK)
    return failed();
  fprintf(stderr, "the cache takes %" PRIu64 " bytes\n", bytes);
  if (itx_cache_create(module, NULL, &options, &cache) != ITX_OK || itx_cache_get_info(cache, &info) != ITX_OK)
    return failed();

  /* The prefix goes into one sequence; the other one shares its pages. */
  itx_chunk chunks[2] = {{NULL, prefix, read_ids(argv[3], prefix), 0}};
  if (itx_sequence_create(cache, &sequences[0]) != ITX_OK)
    return failed();
  chunks[0].sequence = sequences[0];
  if (itx_cache_step(cache, chunks, 1, NULL) != ITX_OK || itx_sequence_fork(sequences[0], &sequences[1]) != ITX_OK)
    return failed();

  /* Computes the differing ends in one call, then a token of each text at a time. */
  for (int i = 0; i < 2; ++i) {
    itx_chunk rest = {sequences[i], prompts[i], read_ids(argv[4 + i], prompts[i]), 1};
    chunks[i] = rest;
  }
  int64_t tokens[2];
  for (long step = 0, count = strtol(argv[2], NULL, 10); step < count; ++step) {
    itx_status status = itx_cache_step(cache, chunks, 2, &logits);
    if (status == ITX_CACHE_FULL)
      fprintf(stderr, "64 pages of %" PRId64 " tokens are used up\n", info.page_tokens);
    if (status != ITX_OK)
      return failed();
    const float *rows = itx_tensor_data(logits);
    for (int i = 0; i < 2; ++i) {
      tokens[i] = largest(rows + i * info.vocabulary, info.vocabulary);
      itx_chunk next = {sequences[i], &tokens[i], 1, 1};
      chunks[i] = next;
    }
    itx_tensor_free(logits);
    printf("%" PRId64 " %" PRId64 "\n", tokens[0], tokens[1]);
  }
  for (int i = 0; i < 2; ++i)
    itx_sequence_free(sequences[i]);
  itx_cache_free(cache);
  itx_module_free(module);
  return 0;
}
