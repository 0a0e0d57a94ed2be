#include "base/files.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.h"
#include "base/hashing.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("trine-files-{}", ::getpid());
    create_folders(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Files, AnAtomicWriteReplacesTheContentAndLeavesNothingBeside) {
  write_file_atomically(folder_ / "a", "old");
  write_file_atomically(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, AnAppendingWriterKeepsWhatIsThere) {
  FileWriter(folder_ / "lines").write("one\n");
  FileWriter(folder_ / "lines", FileWriter::Mode::kAppend).write("two\n");
  EXPECT_EQ(read_file(folder_ / "lines"), "one\ntwo\n");
}

TEST_F(Files, AnEmptyFileMapsToNothing) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(Files, AMissingFileOrAFolderIsAUserErrorThatNamesIt) {
  EXPECT_THROW(
      try { read_file(folder_ / "nothing"); } catch (const UserError& e) {
        EXPECT_THAT(e.what(), testing::HasSubstr("nothing: No such file"));
        throw;
      },
      UserError);
  EXPECT_THROW(read_file(folder_), UserError);
}

TEST_F(Files, ALockedFolderIsRefusedToAnotherProcessAndFreedByItsDeath) {
  const pid_t child = ::fork();
  if (child == 0) {
    FolderLock lock(folder_);
    ::_exit(0);  // no destructor: the system must free it
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  FolderLock mine(folder_);
  EXPECT_THROW(FolderLock another(folder_), UserError);
}

TEST(Hashing, DigestsAreThoseOfThePublishedAlgorithms) {
  const std::string_view abc = "abc";
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(abc))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(xxh3_hex(std::as_bytes(std::span(abc))), "06b05ab6733a618578af5f94892f3950");
}

}  // namespace
}  // namespace trine
