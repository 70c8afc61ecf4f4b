//===- SequenceFilesTest.cpp - Save sequences of language models and restore them ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"

#include "lib/Runtime/Cache/SequenceFile.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {
class SequenceFiles : public CacheTest {};
INSTANTIATE_TEST_SUITE_P(Models, SequenceFiles, decoderFunctions, functionName);
} // namespace

TEST_P(SequenceFiles, SavedSequencesGoOn) {
  CachePointer cache = make(2, 8);
  Tokens text;
  {
    SequencePointer first = sequence(cache);
    extend(cache, first, {1, 2, 3, 4, 5, 6, 7}, text);
    ASSERT_EQ(itx_sequence_save(first.get(), (folder / "s").c_str()), ITX_OK) << itx_last_error();
    SequencePointer empty = sequence(cache);
    ASSERT_EQ(itx_sequence_save(empty.get(), (folder / "empty").c_str()), ITX_OK) << itx_last_error();
  }
  module = load(folder / "m.itx");
  CachePointer another = make(2, 3);
  itx_sequence *made = nullptr;
  ASSERT_EQ(itx_sequence_restore(another.get(), (folder / "s").c_str(), &made), ITX_OK) << itx_last_error();
  SequencePointer restored(made);
  extend(another, restored, {8, 9}, text);
  // One page is left.
  EXPECT_EQ(itx_sequence_restore(another.get(), (folder / "s").c_str(), &made), ITX_CACHE_FULL);
  EXPECT_EQ(info(another).free_sequences, 1);
  ASSERT_EQ(itx_sequence_restore(another.get(), (folder / "empty").c_str(), &made), ITX_OK) << itx_last_error();
  restored.reset(made);
  text.clear();
  extend(another, restored, {8, 9}, text);
  EXPECT_EQ(itx_sequence_save(restored.get(), (folder / "no/s").c_str()), ITX_IO_ERROR);
}

TEST_P(SequenceFiles, DamagedAndForeignFiles) {
  CachePointer cache = make(2, 8);
  SequencePointer first = sequence(cache);
  Tokens text;
  extend(cache, first, {1, 2, 3, 4, 5, 6, 7}, text);
  std::string path = folder / "s";
  ASSERT_EQ(itx_sequence_save(first.get(), path.c_str()), ITX_OK) << itx_last_error();
  std::string good = readFile(path);
  auto refused = [&](const std::string &bytes, itx_status status) {
    writeFile(path, bytes);
    itx_sequence *made = nullptr;
    EXPECT_EQ(itx_sequence_restore(cache.get(), path.c_str(), &made), status) << itx_last_error();
    EXPECT_EQ(made, nullptr);
    return std::string(itx_last_error());
  };
  auto changed = [&](size_t at, uint64_t value, size_t bytes) {
    std::string result = good;
    std::memcpy(result.data() + at, &value, bytes);
    return result;
  };
  EXPECT_THAT(refused("", ITX_CORRUPT), HasSubstr("is no saved sequence"));
  EXPECT_THAT(refused("ITXMOD" + good.substr(6), ITX_CORRUPT), HasSubstr("is no saved sequence"));
  EXPECT_THAT(refused(changed(offsetof(SequenceFileHeader, module), 1, 8), ITX_CORRUPT), HasSubstr("is damaged"));
  EXPECT_THAT(refused(changed(8, 2, 4), ITX_VERSION_MISMATCH), HasSubstr("has format 2, this runtime reads 1"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1), ITX_CORRUPT), HasSubstr("is truncated"));
  EXPECT_THAT(refused(good + "x", ITX_CORRUPT), HasSubstr("is damaged"));
  std::string last = good;
  last.back() ^= 1;
  EXPECT_THAT(refused(last, ITX_CORRUPT), HasSubstr("do not have the hash"));
  for (size_t field : {offsetof(SequenceFileHeader, states), offsetof(SequenceFileHeader, tokens),
                       offsetof(SequenceFileHeader, pageTokens), sizeof(SequenceFileHeader) + 8})
    for (uint64_t value : {uint64_t(0), uint64_t(1) << 30, uint64_t(1) << 62, UINT64_MAX})
      EXPECT_THAT(refused(changed(field, value, field == 12 ? 4 : 8), ITX_CORRUPT), HasSubstr("is damaged")) << field;
  // Contents that an attacker could write with the right hash.
  auto hashed = [](std::string bytes) {
    size_t field = offsetof(SequenceFileHeader, hash);
    std::memset(bytes.data() + field, 0, 16);
    Hash128 hash = hashBytes(bytes.data(), bytes.size());
    std::memcpy(bytes.data() + field, hash.data(), 16);
    return bytes;
  };
  size_t tokens = sizeof(SequenceFileHeader) + sizeof(SequenceFileState) * (hasTail() ? 3 : 1);
  EXPECT_THAT(refused(hashed(changed(tokens, 16, 8)), ITX_CORRUPT), HasSubstr("has the token 16"));
  EXPECT_THAT(refused(hashed(changed(offsetof(SequenceFileHeader, module), 1, 8)), ITX_INVALID_ARGUMENT),
              HasSubstr("can be restored with the artifact that it was made with only"));
  EXPECT_THAT(refused(hashed(changed(offsetof(SequenceFileHeader, function), 7, 8)), ITX_INVALID_ARGUMENT),
              HasSubstr("was saved with the artifact"));
  EXPECT_THAT(refused(hashed(changed(sizeof(SequenceFileHeader), 3, 4)), ITX_INVALID_ARGUMENT),
              HasSubstr("was saved with the artifact"));
  itx_sequence *made = nullptr;
  writeFile(path, hashed(good));
  EXPECT_EQ(itx_sequence_restore(cache.get(), path.c_str(), &made), ITX_OK) << itx_last_error();
  SequencePointer second(made);
  extend(cache, second, {3}, text);
  EXPECT_EQ(itx_sequence_restore(cache.get(), (folder / "none").c_str(), &made), ITX_NOT_FOUND);
}
