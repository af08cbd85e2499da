// repoll_create(), repoll_ctl() and repoll_wait() (RDMACM_1.5): sets of rsockets and ordinary
// descriptors, as epoll(7) has them.

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "compat/rdmacm/later.h"
#include "rdmacm_fixture.h"

namespace {

constexpr std::uint16_t kPort = 7'475;
constexpr int kWaitLimitMs = 5'000;

class EventSet : public RdmaCm {
 protected:
  void SetUp() override {
    RdmaCm::SetUp();
    set_ = repoll_create(EPOLL_CLOEXEC);
    ASSERT_GE(set_, 0);
    ASSERT_EQ(pipe(pipe_.data()), 0);
  }
  void TearDown() override {
    for (const int socket : {server_, client_, listener_, set_}) {
      if (socket >= 0) {
        EXPECT_EQ(rclose(socket), 0);
      }
    }
    close(pipe_[0]);
    close(pipe_[1]);
    EXPECT_EQ(daemon_->ids(), 0U);
    RdmaCm::TearDown();
  }
  void connect() {
    listener_ = rsocket(AF_INET, SOCK_STREAM, 0);
    client_ = rsocket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in here = address("127.77.0.1", kPort);
    ASSERT_EQ(rbind(listener_, generic(here), sizeof here), 0);
    ASSERT_EQ(rlisten(listener_, 4), 0);
    add(listener_, EPOLLIN);
    std::thread connecting{[&] { EXPECT_EQ(rconnect(client_, generic(here), sizeof here), 0); }};
    EXPECT_EQ(next(), listener_);
    server_ = raccept(listener_, nullptr, nullptr);
    connecting.join();
    ASSERT_GE(server_, 0);
    EXPECT_EQ(change(EPOLL_CTL_DEL, listener_), 0);
  }
  [[nodiscard]] int change(int operation, int fd, std::uint32_t events = 0) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return repoll_ctl(set_, operation, fd, &event);
  }
  void add(int fd, std::uint32_t events) const {
    EXPECT_EQ(change(EPOLL_CTL_ADD, fd, events), 0) << std::strerror(errno);
  }
  /// What is ready and why; -1: nothing.
  [[nodiscard]] std::pair<int, std::uint32_t> next_event(int timeout_ms = kWaitLimitMs) const {
    epoll_event event{};
    const int count = repoll_wait(set_, &event, 1, timeout_ms);
    EXPECT_GE(count, 0) << std::strerror(errno);
    return count == 1 ? std::pair<int, std::uint32_t>{event.data.fd, event.events}
                      : std::pair<int, std::uint32_t>{-1, 0};
  }
  [[nodiscard]] int next(int timeout_ms = kWaitLimitMs) const {
    return next_event(timeout_ms).first;
  }
  void write_to_pipe() const { ASSERT_EQ(write(pipe_[1], "x", 1), 1); }

  int set_{-1};
  int listener_{-1};
  int client_{-1};
  int server_{-1};
  std::array<int, 2> pipe_{-1, -1};
};

TEST_F(EventSet, TellsOfRsocketsAndOrdinaryDescriptors) {
  connect();
  add(server_, EPOLLIN);
  add(pipe_[0], EPOLLIN);
  EXPECT_EQ(next(0), -1);
  ASSERT_EQ(rsend(client_, "hello", 5, 0), 5);
  EXPECT_EQ(next_event(), (std::pair{server_, std::uint32_t{EPOLLIN}}));
  EXPECT_EQ(next(), server_);  // as long as it is so
  std::array<char, 8> got{};
  ASSERT_EQ(rrecv(server_, got.data(), got.size(), 0), 5);
  EXPECT_EQ(next(0), -1);
  write_to_pipe();
  EXPECT_EQ(next(), pipe_[0]);
  EXPECT_EQ(change(EPOLL_CTL_MOD, server_, EPOLLOUT), 0);
  EXPECT_EQ(change(EPOLL_CTL_DEL, pipe_[0]), 0);
  EXPECT_EQ(next_event(), (std::pair{server_, std::uint32_t{EPOLLOUT}}));
}

TEST_F(EventSet, DescriptorsTakeTurnsWhenThereIsNoRoomForAll) {
  connect();
  add(server_, EPOLLOUT);
  add(client_, EPOLLOUT);
  add(pipe_[1], EPOLLOUT);
  std::set<int> told;
  for (int i = 0; i < 3; ++i) {
    told.insert(next());
  }
  EXPECT_EQ(told, (std::set{server_, client_, pipe_[1]}));
  std::array<epoll_event, 8> all{};
  EXPECT_EQ(repoll_wait(set_, all.data(), static_cast<int>(all.size()), 0), 3);
}

TEST_F(EventSet, ToldOnceIsOverUntilItIsAskedForAgain) {
  add(pipe_[0], EPOLLIN | EPOLLONESHOT);
  write_to_pipe();
  EXPECT_EQ(next(), pipe_[0]);
  EXPECT_EQ(next(0), -1);
  EXPECT_EQ(change(EPOLL_CTL_MOD, pipe_[0], EPOLLIN | EPOLLONESHOT), 0);
  EXPECT_EQ(next(), pipe_[0]);
}

TEST_F(EventSet, AChangeReachesAllWhoWait) {
  std::array<int, 2> found{};
  std::thread first{[&] { found[0] = next(-1); }};
  std::thread second{[&] { found[1] = next(-1); }};
  usleep(50'000);
  write_to_pipe();
  add(pipe_[0], EPOLLIN);
  first.join();
  second.join();
  EXPECT_EQ(found, (std::array{pipe_[0], pipe_[0]}));
  EXPECT_EQ(change(EPOLL_CTL_DEL, pipe_[0]), 0);
  EXPECT_EQ(next(20), -1);
}

TEST_F(EventSet, WhatIsClosedIsInItNoMore) {
  connect();
  add(server_, EPOLLOUT);
  add(pipe_[1], EPOLLOUT);
  rclose(std::exchange(server_, -1));
  close(std::exchange(pipe_[1], -1));
  EXPECT_EQ(next(20), -1);
}

TEST_F(EventSet, WhoWaitsHearsThatTheSetIsClosed) {
  std::thread waiter{[&] {
    epoll_event event{};
    EXPECT_EQ(repoll_wait(set_, &event, 1, -1), -1);
    EXPECT_EQ(errno, EBADF);
  }};
  usleep(50'000);
  EXPECT_EQ(rclose(set_), 0);
  waiter.join();
  set_ = -1;
}

TEST_F(EventSet, RefusesAsEpollDoes) {
  add(pipe_[0], EPOLLIN);
  const auto refuses = [&](int result, int error) {
    EXPECT_EQ(result, -1);
    EXPECT_EQ(errno, error);
  };
  epoll_event event{};
  refuses(change(EPOLL_CTL_ADD, pipe_[0], EPOLLIN), EEXIST);
  refuses(change(EPOLL_CTL_MOD, pipe_[1], EPOLLIN), ENOENT);
  refuses(change(EPOLL_CTL_DEL, pipe_[1]), ENOENT);
  refuses(change(EPOLL_CTL_ADD, 1'000'000, EPOLLIN), EBADF);
  refuses(change(EPOLL_CTL_ADD, set_, EPOLLIN), EINVAL);
  refuses(change(9, pipe_[0], EPOLLIN), EINVAL);
  refuses(repoll_ctl(set_, EPOLL_CTL_MOD, pipe_[0], nullptr), EFAULT);
  refuses(repoll_ctl(pipe_[0], EPOLL_CTL_ADD, pipe_[1], &event), EBADF);
  refuses(repoll_wait(pipe_[0], &event, 1, 0), EBADF);
  refuses(repoll_wait(set_, &event, 0, 0), EINVAL);
  refuses(repoll_create(1), EINVAL);
  EXPECT_EQ(next(20), -1);
}

}  // namespace
