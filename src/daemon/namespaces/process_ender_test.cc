#include "daemon/namespaces/process_ender.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <vector>

namespace weft::daemon {
namespace {

/// Children of this test that are still there, as the daemon finds those in a namespace.
class ProcessEnderTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  pid_t start(const std::function<void()>& first) {
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe(ready.data()), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      first();
      if (write(ready[1], "y", 1) == 1) {
        sleep(60);
      }
      _exit(0);
    }
    char said = 0;
    EXPECT_EQ(read(ready[0], &said, 1), 1);
    close(ready[0]);
    close(ready[1]);
    children_.push_back(pid);
    return pid;
  }
  [[nodiscard]] std::vector<os::RunningProcess> find() {
    std::vector<os::RunningProcess> found;
    for (const pid_t pid : children_) {
      siginfo_t ended{};
      waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT | WNOHANG);
      if (ended.si_pid == 0) {
        found.push_back({.pid = pid, .name = "child"});
      }
    }
    return found;
  }
  [[nodiscard]] ProcessEnder::Ended end_all() {
    asio::io_context loop;
    ProcessEnder ender{loop};
    std::optional<ProcessEnder::Ended> ended;
    ender.end([this] { return find(); }, [&ended](const ProcessEnder::Ended& all) { ended = all; });
    loop.run();
    EXPECT_TRUE(ended);
    return ended.value_or(ProcessEnder::Ended{});
  }

  std::vector<pid_t> children_;
};

TEST_F(ProcessEnderTest, AsksBySigterm) {
  start([] {});
  kill(start([] {}), SIGSTOP);  // goes on only to hear it
  const auto ended = end_all();
  EXPECT_EQ(ended.asked, 2U);
  EXPECT_EQ(ended.killed, 0U);
  EXPECT_EQ(ended.left, 0U);
  EXPECT_TRUE(find().empty());
}

TEST_F(ProcessEnderTest, KillsWhoDoesNotListen) {
  start([] { signal(SIGTERM, SIG_IGN); });
  const auto ended = end_all();
  EXPECT_EQ(ended.asked, 1U);
  EXPECT_EQ(ended.killed, 1U);
  EXPECT_EQ(ended.left, 0U);
  EXPECT_TRUE(find().empty());
}

TEST_F(ProcessEnderTest, IsDoneAtOnceWhereNobodyIs) {
  const auto ended = end_all();
  EXPECT_EQ(ended.asked, 0U);
}

}  // namespace
}  // namespace weft::daemon
