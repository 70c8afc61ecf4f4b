//===- Hash.cpp - XXH3-128 as artifacts use it --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Hash.h"

#define XXH_INLINE_ALL
#include <cstdlib>
#include <cstring>
#include <xxhash.h>

namespace intarsia {

static Hash128 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Hash128 result;
  static_assert(sizeof(bytes) == sizeof(result));
  std::memcpy(result.data(), &bytes, sizeof(result));
  return result;
}

Hasher::Hasher() : state_(XXH3_createState()) {
  if (!state_)
    std::abort();
  XXH3_128bits_reset(static_cast<XXH3_state_t *>(state_));
}
Hasher::~Hasher() { XXH3_freeState(static_cast<XXH3_state_t *>(state_)); }
void Hasher::update(const void *data, size_t bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t *>(state_), data, bytes);
}
Hash128 Hasher::finish() const { return canonical(XXH3_128bits_digest(static_cast<XXH3_state_t *>(state_))); }

Hash128 hashBytes(const void *data, size_t bytes) { return canonical(XXH3_128bits(data, bytes)); }

std::string hashText(const Hash128 &hash) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace intarsia
