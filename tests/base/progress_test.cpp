#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <string>

#include "base/log.h"

namespace trine {
namespace {

using testing::HasSubstr;

TEST(ProgressLine, ShowsShareCountNoteAndRemainingTime) {
  EXPECT_EQ(progress_line("loading weights", 1200, 3000, "5.1 GB/s", 62, 0),
            "loading weights   40% 1,200/3,000  5.1 GB/s  1 min 02 s left");
  EXPECT_EQ(progress_line("training", 0, 10, "", -1, 0), "training    0% 0/10");
  EXPECT_EQ(progress_line("reading", 1200, 0, "", -1, 0), "reading  1,200") << "without a total there is no share and no remaining time";
}

TEST(ProgressLine, IsCutToTheWidthButNotInsideACharacter) {
  EXPECT_EQ(progress_line("abc", 5, 10, "", 60, 8), "abc   50");
  EXPECT_EQ(progress_line("a語b", 1, 2, "", -1, 3), "a");
}

// A terminal whose screen side the test reads.
struct Terminal {
  int screen = -1, fd = -1;
  explicit Terminal(unsigned short columns) {
    winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::openpty(&screen, &fd, nullptr, nullptr, &size), 0);
    ::fcntl(screen, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::close(screen);
    ::close(fd);
  }
  std::string output() {
    std::string all;
    char buffer[4096];
    for (ssize_t size; (size = ::read(screen, buffer, sizeof(buffer))) > 0;) all.append(buffer, static_cast<size_t>(size));
    return all;
  }
};

const std::string kErase = "\r\x1b[2K";

TEST(Progress, DrawsOneLineOverItselfAndTakesItAwayAtTheEnd) {
  Terminal terminal(40);
  {
    Progress progress({.label = "working", .total = 4, .fd = terminal.fd});
    EXPECT_EQ(terminal.output(), "");
    progress.update(1, "a note that is far too long for this terminal");
    EXPECT_EQ(terminal.output(), kErase + "working   25% 1/4  a note that is far t");
    progress.update(2);
    EXPECT_EQ(terminal.output(), "") << "drawn at most every 100 ms";
    ::usleep(110'000);
    progress.update(3);
    EXPECT_THAT(terminal.output(), HasSubstr("working   75% 3/4  "));
  }
  EXPECT_EQ(terminal.output(), kErase);
}

TEST(Progress, ALogLineAppearsAboveTheStatusLine) {
  Terminal terminal(60);
  Progress progress({.label = "working", .total = 4, .fd = terminal.fd});
  progress.update(1);
  terminal.output();
  log::info("a line of the log");
  EXPECT_EQ(terminal.output(), kErase + "working   25% 1/4") << "erased before the line, drawn again after it";
}

TEST(Progress, OfInnerWorkIsShownInsteadOfTheOuterWhichComesBack) {
  Terminal terminal(60);
  Progress outer({.label = "training", .total = 4, .fd = terminal.fd});
  outer.update(1);
  terminal.output();
  {
    Progress inner({.label = "validation", .total = 9, .fd = terminal.fd});
    inner.update(3);
    const std::string screen = terminal.output();
    EXPECT_TRUE(screen.starts_with(kErase)) << screen;
    EXPECT_TRUE(screen.ends_with("validation   33% 3/9")) << screen;
  }
  EXPECT_EQ(terminal.output(), kErase + "training   25% 1/4");
}

TEST(Progress, OfAFileIsAPlainLineNowAndThen) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  testing::internal::CaptureStderr();
  {
    Progress progress({.label = "working", .total = 4, .plain_interval = 0.02, .fd = ends[1]});
    progress.update(1);
    ::usleep(30'000);
    progress.update(3);
    Progress quiet({.label = "quiet", .total = 4, .plain_interval = 0, .fd = ends[1]});
    ::usleep(30'000);
    quiet.update(2);
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("working   75% 3/4  "));
  EXPECT_THAT(lines, testing::Not(HasSubstr("25%"))) << "the first line comes only after the interval";
  EXPECT_THAT(lines, testing::Not(HasSubstr("\x1b[2K")));
  EXPECT_THAT(lines, testing::Not(HasSubstr("quiet")));
  ::close(ends[1]);
  char byte;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "nothing is drawn where there is no terminal";
  ::close(ends[0]);
}

}  // namespace
}  // namespace trine
