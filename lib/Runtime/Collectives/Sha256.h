//===- Sha256.h - SHA-256 and messages that are signed with a shared secret --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For short messages: processes prove to each other with them that they know the same secret.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_SHA256_H
#define INTARSIA_RUNTIME_COLLECTIVES_SHA256_H

#include <array>
#include <cstdint>
#include <string>

namespace intarsia::runtime {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4).
Digest sha256(const std::string &message);

/// HMAC-SHA-256 (RFC 2104).
Digest signWith(const std::string &secret, const std::string &message);

/// Compares in a time that does not tell where the two differ.
bool isSameDigest(const Digest &one, const Digest &other);

} // namespace intarsia::runtime

#endif
