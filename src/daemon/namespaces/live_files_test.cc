#include "daemon/namespaces/live_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft::daemon {
namespace {

/// Two files of one owner, whose content is the number of times that it was asked for.
class LiveFilesTest : public ::testing::Test {
 protected:
  template <class Work>
  auto in_loop(Work work) {
    std::packaged_task<decltype(work())()> task{std::move(work)};
    auto result = task.get_future();
    asio::post(loop_, [&task] { task(); });
    return result.get();
  }

  void SetUp() override {
    std::string name = "/dev/shm/weft-live-XXXXXX";
    file_ = os::UniqueFd{mkostemp(name.data(), O_CLOEXEC)};
    ASSERT_TRUE(file_);
    path_ = name;
    loop_thread_ = std::thread{[this] { loop_.run(); }};
    const auto kept = in_loop([this] { return files_.keep(7, "packets", std::move(file_)); });
    ASSERT_TRUE(kept) << kept.error().reason;
  }
  void TearDown() override {
    asio::post(loop_, [this] { loop_.stop(); });
    loop_thread_.join();
    unlink(path_.c_str());
  }

  [[nodiscard]] static std::string read_from(int fd) {
    std::array<char, 32> text{};
    const ssize_t count = pread(fd, text.data(), text.size(), 0);
    return {text.data(), count < 0 ? 0 : static_cast<std::size_t>(count)};
  }
  [[nodiscard]] std::string read_now() const {
    const os::UniqueFd fd{open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
    return read_from(fd.get());
  }

  asio::io_context loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  std::atomic<int> value_{1};
  LiveFiles files_{loop_, [this](LiveFiles::Owner owner) {
                     return std::map<std::string, std::string>{
                         {"packets", owner == 7 ? std::to_string(value_) + "\n" : "another's"}
                     };
                   }};
  std::string path_;
  os::UniqueFd file_;
  std::thread loop_thread_;
};

TEST_F(LiveFilesTest, AreTrueWhenTheyAreOpened) {
  for (int i = 0; i < 200; ++i) {
    value_ = i * 7;
    ASSERT_EQ(read_now(), std::to_string(i * 7) + "\n");
    // Until the lease is taken again a reader may see what the last one saw.
    while (in_loop([this] { return files_.opened(); }) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
}

TEST_F(LiveFilesTest, AreWrittenAnewWhileTheyStayOpen) {
  const os::UniqueFd reader{open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(reader);
  value_ = 123'456;
  for (int i = 0; i < 2'000 && read_from(reader.get()) != "123456\n"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  EXPECT_EQ(read_from(reader.get()), "123456\n");
  value_ = 5;  // shorter, as after a reset
  for (int i = 0; i < 2'000 && read_from(reader.get()) != "5\n"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  EXPECT_EQ(read_from(reader.get()), "5\n");
}

TEST_F(LiveFilesTest, ServeManyReadersAtOnce) {
  value_ = 42;
  std::vector<std::future<std::string>> readers;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(std::async(std::launch::async, [this] { return read_now(); }));
  }
  for (auto& reader : readers) {
    EXPECT_EQ(reader.get(), "42\n");
  }
}

TEST_F(LiveFilesTest, LeaveWhatIsForgottenAlone) {
  value_ = 3;
  ASSERT_EQ(read_now(), "3\n");
  in_loop([this] {
    files_.forget(7);
    return 0;
  });
  EXPECT_EQ(files_.size(), 0U);
  value_ = 4;
  EXPECT_EQ(read_now(), "3\n") << "nobody writes it, and nobody makes readers wait";
}

}  // namespace
}  // namespace weft::daemon
