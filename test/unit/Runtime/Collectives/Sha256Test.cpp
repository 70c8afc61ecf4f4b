//===- Sha256Test.cpp - SHA-256 against published digests --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Sha256.h"

#include "lib/Support/Status.h"
#include "gtest/gtest.h"

using namespace intarsia;
using namespace intarsia::runtime;

namespace {

std::string hexOf(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest)
    text += format("%02x", byte);
  return text;
}

// NIST's examples of SHA-256 (one block, two blocks), the empty message, and a million of 'a' (FIPS 180-2, B.3).
TEST(Sha256, PublishedDigests) {
  EXPECT_EQ(hexOf(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hexOf(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hexOf(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hexOf(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 4231, test cases 1, 2 and 6 (a key that is longer than a block).
TEST(Sha256, PublishedSignatures) {
  EXPECT_EQ(hexOf(signWith(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexOf(signWith("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexOf(signWith(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_TRUE(isSameDigest(sha256("x"), sha256("x")));
  EXPECT_FALSE(isSameDigest(sha256("x"), sha256("y")));
}

} // namespace
