//===- FileVersionsTest.cpp - Files that change between two reads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Support/FileVersions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {
class FileVersionsTest : public ::testing::Test {
protected:
  void SetUp() override { writeFile(path, "weights"); }
  TemporaryFolder folder;
  std::string path = folder / "model.safetensors";
};
} // namespace

TEST_F(FileVersionsTest, TakesFilesThatStay) {
  FileVersions versions;
  FileVersions::note(path);
  EXPECT_EQ(readFile(path), "weights");
  EXPECT_EQ(chmod(path.c_str(), 0400), 0);
  writeFile(folder / "other", "text");
  EXPECT_TRUE(FileVersions::check().ok());
}

TEST_F(FileVersionsTest, RefusesAnotherSize) {
  FileVersions versions;
  FileVersions::note(path);
  ASSERT_EQ(truncate(path.c_str(), 6), 0);
  Status status = FileVersions::check();
  EXPECT_EQ(status.code(), ITX_IO_ERROR);
  EXPECT_THAT(status.message(), HasSubstr(path + ": was written to and has 6 bytes, not 7 any more"));
}

TEST_F(FileVersionsTest, RefusesTheSameSizeWrittenAtOnce) {
  // The clock of files stands still for some milliseconds, in which a file could be written, noted and written again.
  FileVersions versions;
  FileVersions::note(path);
  writeFile(path, "Weights");
  EXPECT_THAT(FileVersions::check().message(), HasSubstr("was written to while it was read"));
}

TEST_F(FileVersionsTest, RefusesAnotherFileOfTheName) {
  FileVersions versions;
  FileVersions::note(path);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  writeFile(folder / "new", "weights");
  timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder / "new").c_str(), times, 0), 0);
  ASSERT_EQ(rename((folder / "new").c_str(), path.c_str()), 0);
  EXPECT_THAT(FileVersions::check().message(), HasSubstr("was replaced by another file"));
}

TEST_F(FileVersionsTest, RefusesAFileThatIsGone) {
  FileVersions versions;
  FileVersions::note(path);
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_THAT(FileVersions::check().message(), HasSubstr("was removed"));
}

TEST_F(FileVersionsTest, KeepsTheFirstVersion) {
  FileVersions versions;
  FileVersions::note(path);
  ASSERT_EQ(truncate(path.c_str(), 6), 0);
  FileVersions::note(path);
  EXPECT_FALSE(FileVersions::check().ok());
}

TEST_F(FileVersionsTest, BelongsToOneThreadAndOneScope) {
  FileVersions::note(path); // nobody asks
  FileVersions versions;
  {
    FileVersions inner;
    FileVersions::note(path);
  }
  std::thread([&] { FileVersions::note(path); }).join();
  FileVersions::note(folder.path()); // a folder, and a file that is not there
  FileVersions::note(folder / "none");
  ASSERT_EQ(truncate(path.c_str(), 6), 0);
  EXPECT_TRUE(FileVersions::check().ok());
}
