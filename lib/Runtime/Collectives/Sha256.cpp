//===- Sha256.cpp - SHA-256 and messages that are signed with a shared secret ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Sha256.h"

#include <algorithm>
#include <bit>

namespace intarsia::runtime {

static constexpr size_t digestBlockBytes = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
static constexpr uint32_t digestConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Adds a block to the state (FIPS 180-4, 6.2.2).
static void addDigestBlock(uint32_t (&state)[8], const uint8_t *block) {
  uint32_t words[64];
  for (int i = 0; i < 16; ++i)
    words[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 |
               block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t first = std::rotr(words[i - 15], 7) ^ std::rotr(words[i - 15], 18) ^ words[i - 15] >> 3;
    uint32_t second = std::rotr(words[i - 2], 17) ^ std::rotr(words[i - 2], 19) ^ words[i - 2] >> 10;
    words[i] = words[i - 16] + first + words[i - 7] + second;
  }
  uint32_t v[8];
  std::copy(std::begin(state), std::end(state), v);
  for (int i = 0; i < 64; ++i) {
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t high = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    uint32_t low = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    uint32_t one = v[7] + high + choice + digestConstants[i] + words[i], two = low + majority;
    for (int k = 7; k > 0; --k)
      v[k] = v[k - 1];
    v[4] += one;
    v[0] = one + two;
  }
  for (int k = 0; k < 8; ++k)
    state[k] += v[k];
}

Digest sha256(const std::string &message) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded = message + '\x80';
  padded.resize((padded.size() + 8 + digestBlockBytes - 1) / digestBlockBytes * digestBlockBytes);
  for (int i = 0; i < 8; ++i)
    padded[padded.size() - 1 - size_t(i)] = char(uint64_t(message.size()) * 8 >> 8 * i);
  for (size_t at = 0; at < padded.size(); at += digestBlockBytes)
    addDigestBlock(state, reinterpret_cast<const uint8_t *>(padded.data()) + at);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = uint8_t(state[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

static std::string bytesOfDigest(const Digest &digest) { return {digest.begin(), digest.end()}; }

Digest signWith(const std::string &secret, const std::string &message) {
  std::string key = secret.size() > digestBlockBytes ? bytesOfDigest(sha256(secret)) : secret;
  key.resize(digestBlockBytes);
  std::string inner = key, outer = key;
  for (size_t i = 0; i < digestBlockBytes; ++i) {
    inner[i] = char(inner[i] ^ 0x36);
    outer[i] = char(outer[i] ^ 0x5c);
  }
  return sha256(outer + bytesOfDigest(sha256(inner + message)));
}

bool isSameDigest(const Digest &one, const Digest &other) {
  uint8_t difference = 0;
  for (size_t i = 0; i < one.size(); ++i)
    difference |= one[i] ^ other[i];
  return difference == 0;
}

} // namespace intarsia::runtime
