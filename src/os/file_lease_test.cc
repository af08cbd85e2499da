#include "os/file_lease.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace weft::os {
namespace {

class FileLease : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/weft-lease-XXXXXX";  // tmpfs, as /sys/class of a host is
    file_ = UniqueFd{mkostemp(name.data(), O_CLOEXEC)};
    ASSERT_TRUE(file_);
    path_ = name;
    auto keeper = LeaseKeeper::create();
    ASSERT_TRUE(keeper) << keeper.error().reason;
    keeper_.emplace(std::move(*keeper));
    const auto taken = keeper_->take(file_.get());
    ASSERT_TRUE(taken) << taken.error().reason;
  }
  void TearDown() override { unlink(path_.c_str()); }

  [[nodiscard]] std::string read_now(int flags = O_RDONLY) const {
    const UniqueFd fd{open(path_.c_str(), flags | O_CLOEXEC)};
    std::array<char, 64> text{};
    const ssize_t count = fd ? read(fd.get(), text.data(), text.size()) : -1;
    return count < 0 ? "refused" : std::string{text.data(), static_cast<std::size_t>(count)};
  }
  [[nodiscard]] bool hears_an_opener() const {
    pollfd ready{.fd = keeper_->fd(), .events = POLLIN, .revents = 0};
    return poll(&ready, 1, 20'000) == 1;
  }

  std::string path_;
  UniqueFd file_;
  std::optional<LeaseKeeper> keeper_;
};

TEST_F(FileLease, ShowsOpenersWhatIsWrittenWhileTheyWait) {
  auto reader = std::async(std::launch::async, [this] { return read_now(); });
  ASSERT_TRUE(hears_an_opener());
  const auto breaks = keeper_->take_breaks();
  EXPECT_EQ(breaks.files, std::vector{file_.get()});
  EXPECT_TRUE(LeaseKeeper::is_breaking(file_.get()));
  ASSERT_EQ(pwrite(file_.get(), "new", 3, 0), 3);
  LeaseKeeper::release(file_.get());
  EXPECT_EQ(reader.get(), "new");
}

TEST_F(FileLease, CanBeTakenAgainOnceTheReaderHasClosed) {
  LeaseKeeper::release(file_.get());
  {
    const UniqueFd reader{open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
    const auto taken = keeper_->take(file_.get());
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, ErrorCode::TryAgain);
  }
  EXPECT_TRUE(keeper_->take(file_.get()));
  EXPECT_FALSE(LeaseKeeper::is_breaking(file_.get()));
}

TEST_F(FileLease, RefusesOpenersThatDoNotWaitAndTellsOfThem) {
  EXPECT_EQ(read_now(O_RDONLY | O_NONBLOCK), "refused");
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(hears_an_opener());
}

TEST_F(FileLease, IsRefusedForFilesThatHaveNone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto taken = keeper_->take(ends[0]);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::NotSupported);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weft::os
