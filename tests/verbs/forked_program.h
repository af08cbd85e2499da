#pragma once

// A second program on the fabric of a test: a child of fork(), which attaches anew.

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

/// Numbers that both say to each other, in turns.
class Conversation {
 public:
  explicit Conversation(int socket) : socket_(socket) {}
  void say(std::uint64_t number) const {
    EXPECT_EQ(write(socket_, &number, sizeof number), ssize_t{sizeof number});
  }
  [[nodiscard]] std::uint64_t hear() const {
    std::uint64_t number{};
    EXPECT_EQ(read(socket_, &number, sizeof number), ssize_t{sizeof number});
    return number;
  }

 private:
  int socket_;
};

class ForkedProgram {
 public:
  /// `run` is what the child does; it succeeds if no expectation failed there.
  explicit ForkedProgram(const std::function<void(const Conversation&)>& run) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      close(ends[0]);
      run(Conversation{ends[1]});
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  ~ForkedProgram() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(was_killed_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << "the other program failed: " << status;
    close(socket_);
  }
  ForkedProgram(const ForkedProgram&) = delete;
  ForkedProgram& operator=(const ForkedProgram&) = delete;

  [[nodiscard]] Conversation talk() const { return Conversation{socket_}; }
  void kill() {
    was_killed_ = true;
    ::kill(pid_, SIGKILL);
  }

 private:
  pid_t pid_{};
  int socket_{-1};
  bool was_killed_{};
};
