//===- FileTest.cpp - Writing files without losing any ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Support/File.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {
class FileTest : public ::testing::Test {
protected:
  mode_t modeOf(const std::string &name) {
    struct stat info = {};
    EXPECT_EQ(stat((folder / name).c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  TemporaryFolder folder;
};
} // namespace

TEST_F(FileTest, AppearsWhenItIsComplete) {
  std::unique_ptr<AtomicFile> file;
  ASSERT_TRUE(AtomicFile::create(folder / "a", file).ok());
  ASSERT_TRUE(file->write("text", 4).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(readFile(folder / "a"), "text");
  EXPECT_EQ(folder.files(), 1u);
}

TEST_F(FileTest, IsReadBeforeItIsCompleteAndGetsAnotherName) {
  std::unique_ptr<AtomicFile> file;
  ASSERT_TRUE(AtomicFile::create(folder / "a", file).ok());
  ASSERT_TRUE(file->write("text", 4).ok());
  EXPECT_EQ(readFile(file->openPath()), "text");
  ASSERT_TRUE(file->commitAs(folder / "b").ok());
  EXPECT_EQ(readFile(folder / "b"), "text");
  EXPECT_EQ(folder.files(), 1u);
}

TEST_F(FileTest, LeavesNothingWithoutCommit) {
  std::unique_ptr<AtomicFile> file;
  ASSERT_TRUE(AtomicFile::create(folder / "a", file).ok());
  file.reset();
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(FileTest, NothingIsLeftOfAKilledProcess) {
  int descriptor = open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (descriptor < 0)
    GTEST_SKIP() << "this file system has no files without a name";
  close(descriptor);
  pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<AtomicFile> file;
    bool written = AtomicFile::create(folder / "a", file).ok() && file->write("half", 4).ok();
    _exit(written ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(FileTest, NameOfATemporaryFileThatIsTaken) {
  // A process that had this number before may have ended without removing its files.
  for (int i = 0; i < 1000; ++i)
    writeFile(folder / ("a." + std::to_string(getpid()) + "-" + std::to_string(i) + ".tmp"), "old");
  writeFile(folder / "a", "replaced"); // without a file to replace, no temporary name is needed
  std::unique_ptr<AtomicFile> file;
  ASSERT_TRUE(AtomicFile::create(folder / "a", file).ok());
  ASSERT_TRUE(file->write("new", 3).ok() && file->commit().ok());
  EXPECT_EQ(readFile(folder / "a"), "new");
  EXPECT_EQ(readFile(folder / ("a." + std::to_string(getpid()) + "-999.tmp")), "old");
}

TEST_F(FileTest, PermissionsFollowTheUmask) {
  mode_t before = umask(027);
  std::unique_ptr<AtomicFile> file;
  std::unique_ptr<OutputFile> program;
  EXPECT_TRUE(AtomicFile::create(folder / "a", file).ok() && file->commit().ok());
  EXPECT_TRUE(OutputFile::create(folder / "b", program).ok() && program->makeExecutable().ok());
  EXPECT_EQ(umask(before), mode_t(027));
  EXPECT_EQ(modeOf("a"), mode_t(0640));
  EXPECT_EQ(modeOf("b"), mode_t(0750));
}

TEST_F(FileTest, DevicesAreWrittenAsTheyAre) {
  std::unique_ptr<AtomicFile> file;
  ASSERT_TRUE(AtomicFile::create("/dev/null", file).ok());
  EXPECT_TRUE(file->write("x", 1).ok() && file->commit().ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  ASSERT_TRUE(AtomicFile::create("/dev/full", file).ok());
  EXPECT_THAT(file->write("x", 1).message(), HasSubstr("/dev/full: cannot be written"));
}

TEST_F(FileTest, PipesAreRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  alarm(10); // ends the test if it waits
  std::unique_ptr<MappedFile> file;
  Status status = MappedFile::open(folder / "pipe", file);
  alarm(0);
  EXPECT_EQ(status.code(), ITX_IO_ERROR);
  EXPECT_THAT(status.message(), HasSubstr("pipe: is special, not a file"));
}

TEST_F(FileTest, SameFile) {
  writeFile(folder / "a", "");
  writeFile(folder / "b", "");
  std::filesystem::create_symlink(folder / "a", folder / "link");
  std::filesystem::create_directory(folder / "inner");
  EXPECT_TRUE(isSameFile(folder / "a", folder / "inner/../a"));
  EXPECT_TRUE(isSameFile(folder / "a", folder / "link"));
  EXPECT_FALSE(isSameFile(folder / "a", folder / "b"));
  // Files that are not there yet.
  EXPECT_TRUE(isSameFile(folder / "new", folder / "inner/../new"));
  EXPECT_FALSE(isSameFile(folder / "new", folder / "inner/new"));
  EXPECT_FALSE(isSameFile(folder / "new", folder / "a"));
  EXPECT_FALSE(isSameFile("/dev/null", "/dev/null"));
}
