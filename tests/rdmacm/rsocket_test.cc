// rsockets: streams over connections, as programs use sockets.

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "rdmacm_fixture.h"

namespace {

constexpr std::uint16_t kPort = 7'472;

[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return out;
}

/// Two sockets that are connected.
class RSocket : public RdmaCm {
 protected:
  void SetUp() override {
    RdmaCm::SetUp();
    listener_ = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(listener_, 0);
    here_ = address("127.77.0.1", kPort);
    ASSERT_EQ(rbind(listener_, generic(here_), sizeof here_), 0);
    ASSERT_EQ(rlisten(listener_, 4), 0);
    client_ = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(client_, 0);
  }
  void TearDown() override {
    for (const int socket : {server_, client_, listener_}) {
      if (socket >= 0) {
        EXPECT_EQ(rclose(socket), 0);
      }
    }
    EXPECT_EQ(daemon_->ids(), 0U);
    RdmaCm::TearDown();
  }
  void connect() {
    std::thread accepting{
        [this, listener = listener_] { server_ = raccept(listener, nullptr, nullptr); }};
    if (rconnect(client_, generic(here_), sizeof here_) != 0) {
      ADD_FAILURE() << "not connected: " << std::strerror(errno);
      rclose(std::exchange(listener_, -1));  // nobody is to wait for the request
    }
    accepting.join();
    ASSERT_GE(server_, 0);
  }
  /// All of it goes one way, in pieces that neither side knows of.
  static void expect_to_carry(int from, int to, std::size_t bytes) {
    const auto data = pattern(bytes);
    std::vector<std::byte> got(bytes);
    std::thread sender{[&] {
      std::size_t done = 0;
      while (done < bytes) {
        const ssize_t count = rsend(from, data.data() + done, bytes - done, 0);
        ASSERT_GT(count, 0);
        done += static_cast<std::size_t>(count);
      }
    }};
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t count = rrecv(to, got.data() + done, bytes - done, 0);
      if (count <= 0) {
        ADD_FAILURE() << "after " << done << " octets";
        break;
      }
      done += static_cast<std::size_t>(count);
    }
    sender.join();
    EXPECT_EQ(got, data);
  }

  sockaddr_in here_{};
  int listener_{-1};
  int client_{-1};
  int server_{-1};
};

TEST_F(RSocket, CarriesMoreThanItsBuffersBothWaysInOrder) {
  connect();
  expect_to_carry(client_, server_, 3'000'017);
  expect_to_carry(server_, client_, 3'000'017);
}

TEST_F(RSocket, CarriesManyShortMessages) {
  connect();
  for (int i = 0; i < 2'000; ++i) {  // more than there are credits
    ASSERT_EQ(rsend(client_, &i, sizeof i, 0), ssize_t{sizeof i});
    int got = -1;
    ASSERT_EQ(rrecv(server_, &got, sizeof got, MSG_WAITALL), ssize_t{sizeof got});
    ASSERT_EQ(got, i);
  }
}

TEST_F(RSocket, BothWaysAtOnceByTwoThreadsOfEachSide) {
  connect();
  std::thread there{[&] { expect_to_carry(client_, server_, 1'000'003); }};
  expect_to_carry(server_, client_, 1'000'003);
  there.join();
}

TEST_F(RSocket, NoMoreMessagesGoThanWereGranted) {
  int depth = 16;
  ASSERT_EQ(rsetsockopt(listener_, SOL_RDMA, RDMA_RQSIZE, &depth, sizeof depth), 0);
  connect();
  for (int i = 0; i < depth; ++i) {
    ASSERT_EQ(rsend(client_, "x", 1, MSG_DONTWAIT), 1) << i;
  }
  EXPECT_EQ(rsend(client_, "x", 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  std::array<char, 16> got{};
  EXPECT_EQ(rrecv(server_, got.data(), got.size(), MSG_WAITALL), 16);
  pollfd writable{.fd = client_, .events = POLLOUT, .revents = 0};
  EXPECT_EQ(rpoll(&writable, 1, 2'000), 1);  // what was read is granted at once
}

TEST_F(RSocket, PeeksOverTheEndOfItsRing) {
  int bytes = 2'048;  // doubled: two halves of 2,048
  ASSERT_EQ(rsetsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  connect();
  pollfd writable{.fd = server_, .events = POLLOUT, .revents = 0};
  ASSERT_EQ(rpoll(&writable, 1, 5'000), 1);  // it has published both halves
  const auto data = pattern(5'596);
  ASSERT_EQ(rsend(client_, data.data(), 4'096, 0), 4'096);
  std::vector<std::byte> got(5'596);
  ASSERT_EQ(rrecv(server_, got.data(), 3'000, MSG_WAITALL), 3'000);
  ASSERT_EQ(rsend(client_, data.data() + 4'096, 1'500, 0), 1'500);
  ssize_t seen = 0;
  for (int i = 0; i < 200 && seen < 2'596; ++i) {
    seen = rrecv(server_, got.data() + 3'000, 2'596, MSG_PEEK);
    usleep(1'000);
  }
  ASSERT_EQ(seen, 2'596);
  EXPECT_EQ(got, data);
}

TEST_F(RSocket, BothHalvesShutAtOnceAreTheEnd) {
  connect();
  ASSERT_EQ(rshutdown(client_, SHUT_WR), 0);
  ASSERT_EQ(rshutdown(server_, SHUT_WR), 0);  // before it has seen the other's
  for (const int socket : {client_, server_}) {
    pollfd wanted{.fd = socket, .events = POLLIN, .revents = 0};
    EXPECT_EQ(rpoll(&wanted, 1, 5'000), 1);
    EXPECT_EQ(wanted.revents, POLLIN | POLLHUP);
  }
}

TEST_F(RSocket, WhoSpeaksAnotherVersionIsRejected) {
  std::thread accepting{[this] {
    EXPECT_EQ(raccept(listener_, nullptr, nullptr), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }};
  rdma_cm_id* const id = resolved(kPort);
  std::array<char, 40> data{2};
  rdma_conn_param wish{};
  wish.qp_num = 1;
  wish.private_data = data.data();
  wish.private_data_len = data.size();
  ASSERT_EQ(rdma_connect(id, &wish), 0);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, 28);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  accepting.join();
}

TEST_F(RSocket, SaysItsAddressesAndItsPeers) {
  connect();
  sockaddr_in name{};
  socklen_t bytes = sizeof name;
  ASSERT_EQ(rgetpeername(client_, generic(name), &bytes), 0);
  EXPECT_EQ(name.sin_port, htons(kPort));
  ASSERT_EQ(rgetsockname(server_, generic(name), &bytes), 0);
  EXPECT_EQ(name.sin_port, htons(kPort));
}

TEST_F(RSocket, PeekedOctetsStay) {
  connect();
  ASSERT_EQ(rsend(client_, "weft", 4, 0), 4);
  std::array<char, 4> seen{};
  ASSERT_EQ(rrecv(server_, seen.data(), seen.size(), MSG_PEEK), 4);
  EXPECT_EQ((std::string_view{seen.data(), 4}), "weft");
  seen = {};
  ASSERT_EQ(rrecv(server_, seen.data(), 2, 0), 2);
  ASSERT_EQ(rrecv(server_, seen.data() + 2, 2, 0), 2);
  EXPECT_EQ((std::string_view{seen.data(), 4}), "weft");
}

TEST_F(RSocket, NonBlockingCallsSayThatTheyWouldWait) {
  connect();
  ASSERT_EQ(rfcntl(server_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_NE(rfcntl(server_, F_GETFL) & O_NONBLOCK, 0);
  char octet{};
  EXPECT_EQ(rrecv(server_, &octet, 1, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(rrecv(client_, &octet, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  const auto data = pattern(1 << 20);
  const ssize_t sent = rsend(client_, data.data(), data.size(), MSG_DONTWAIT);
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 1 << 20);  // until the buffers were full
}

TEST_F(RSocket, PollTellsOfDataOfRoomAndOfTheEnd) {
  connect();
  pollfd wanted[] = {
      {.fd = server_, .events = POLLIN,           .revents = 0},
      {.fd = client_, .events = POLLIN | POLLOUT, .revents = 0}
  };
  EXPECT_EQ(rpoll(wanted, 1, 10), 0);
  ASSERT_EQ(rpoll(wanted, 2, 10), 1);
  EXPECT_EQ(wanted[1].revents, POLLOUT);
  std::thread sender{[&] {
    usleep(30'000);
    EXPECT_EQ(rsend(client_, "x", 1, 0), 1);
  }};
  EXPECT_EQ(rpoll(wanted, 1, 5'000), 1);
  EXPECT_EQ(wanted[0].revents, POLLIN);
  sender.join();
  char octet{};
  EXPECT_EQ(rrecv(server_, &octet, 1, 0), 1);
  ASSERT_EQ(rshutdown(client_, SHUT_RDWR), 0);
  EXPECT_EQ(rpoll(wanted, 1, 5'000), 1);
  EXPECT_EQ(wanted[0].revents, POLLIN | POLLHUP);
  EXPECT_EQ(rrecv(server_, &octet, 1, 0), 0);
}

TEST_F(RSocket, PollTellsOfTheEndWhenWhatCameBeforeItIsRead) {
  connect();
  ASSERT_EQ(rsend(client_, "last", 4, 0), 4);
  ASSERT_EQ(rshutdown(client_, SHUT_RDWR), 0);
  pollfd end{.fd = server_, .events = 0, .revents = 0};
  ASSERT_EQ(rpoll(&end, 1, 5'000), 1);  // who does not want the octets hears of the end at once
  ASSERT_EQ(end.revents, POLLHUP);
  pollfd wanted{.fd = server_, .events = POLLIN, .revents = 0};
  std::array<char, 4> got{};
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}}) {
    EXPECT_EQ(rpoll(&wanted, 1, 0), 1);
    EXPECT_EQ(wanted.revents, POLLIN);
    EXPECT_EQ(rrecv(server_, got.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  EXPECT_EQ(rpoll(&wanted, 1, 0), 1);
  EXPECT_EQ(wanted.revents, POLLIN | POLLHUP);
}

TEST_F(RSocket, AHalfThatIsShutIsReadToItsEndWhileTheOtherHalfGoesOn) {
  connect();
  ASSERT_EQ(rsend(client_, "end", 3, 0), 3);
  ASSERT_EQ(rshutdown(client_, SHUT_WR), 0);
  std::array<char, 8> got{};
  EXPECT_EQ(rrecv(server_, got.data(), got.size(), MSG_WAITALL), 3);
  EXPECT_EQ(rrecv(server_, got.data(), got.size(), 0), 0);
  EXPECT_EQ(rsend(client_, "x", 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  ASSERT_EQ(rsend(server_, "yes", 3, 0), 3);
  EXPECT_EQ(rrecv(client_, got.data(), got.size(), 0), 3);
}

TEST_F(RSocket, APeerThatDiesIsTheEndOfTheStream) {
  connect();
  ASSERT_EQ(rsend(client_, "last", 4, 0), 4);
  std::thread killer{[&] {
    usleep(30'000);
    daemon_->raise(daemon_->newest_id(), {.type = weft::verbs::RdmaCmEventType::Disconnected});
  }};
  std::array<char, 8> got{};
  EXPECT_EQ(rrecv(server_, got.data(), got.size(), MSG_WAITALL), 4);
  EXPECT_EQ(rrecv(server_, got.data(), got.size(), 0), 0);
  killer.join();
  EXPECT_EQ(rsend(server_, "x", 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  pollfd wanted{.fd = server_, .events = POLLIN, .revents = 0};
  EXPECT_EQ(rpoll(&wanted, 1, 0), 1);
  EXPECT_EQ(wanted.revents, POLLIN | POLLHUP);
}

TEST_F(RSocket, ANonBlockingConnectIsReadyToWriteWhenItIsDone) {
  ASSERT_EQ(rfcntl(client_, F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(rfcntl(listener_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(raccept(listener_, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  if (rconnect(client_, generic(here_), sizeof here_) != 0) {
    ASSERT_EQ(errno, EINPROGRESS);
  }
  for (int i = 0; i < 50 && server_ < 0; ++i) {
    pollfd wanted[] = {
        {.fd = client_,   .events = POLLOUT, .revents = 0},
        {.fd = listener_, .events = POLLIN,  .revents = 0}
    };
    ASSERT_GE(rpoll(wanted, 2, 100), 0);
    if ((wanted[1].revents & POLLIN) != 0) {
      server_ = raccept(listener_, nullptr, nullptr);
    }
  }
  ASSERT_GE(server_, 0);
  pollfd writable{.fd = client_, .events = POLLOUT, .revents = 0};
  ASSERT_EQ(rpoll(&writable, 1, 5'000), 1);
  EXPECT_EQ(writable.revents, POLLOUT);
  int error = -1;
  socklen_t bytes = sizeof error;
  EXPECT_EQ(rgetsockopt(client_, SOL_SOCKET, SO_ERROR, &error, &bytes), 0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(rsend(client_, "x", 1, 0), 1);
  pollfd readable{.fd = server_, .events = POLLIN, .revents = 0};
  EXPECT_EQ(rpoll(&readable, 1, 5'000), 1);
}

TEST_F(RSocket, AListenerMayBeClosedWhileAThreadWaitsForRequests) {
  std::thread waiter{[this] {
    EXPECT_EQ(raccept(listener_, nullptr, nullptr), -1);
    EXPECT_TRUE(errno == EINVAL || errno == EBADF);
  }};
  usleep(20'000);
  EXPECT_EQ(rclose(listener_), 0);
  waiter.join();
  listener_ = -1;
}

TEST_F(RSocket, NobodyThereIsConnectionRefused) {
  sockaddr_in null_lane = address("127.77.0.1", 9);
  EXPECT_EQ(rconnect(client_, generic(null_lane), sizeof null_lane), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  char octet{};
  EXPECT_EQ(rrecv(client_, &octet, 1, 0), -1);
  EXPECT_EQ(errno, ENOTCONN);
}

TEST_F(RSocket, MappedMemoryIsWrittenWithoutItsOwner) {
  int entries = 4;
  ASSERT_EQ(rsetsockopt(client_, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries), 0);
  connect();
  std::array<char, 64> memory{};
  const off_t offset = riomap(server_, memory.data(), memory.size(), PROT_WRITE, 0, 4'096);
  ASSERT_EQ(offset, 4'096);
  ASSERT_EQ(rsend(server_, "m", 1, 0), 1);  // with the mapping
  char octet{};
  ASSERT_EQ(rrecv(client_, &octet, 1, 0), 1);
  ASSERT_EQ(riowrite(client_, "weft", 4, offset + 8, 0), 4U);
  ASSERT_EQ(rsend(client_, "d", 1, 0), 1);
  ASSERT_EQ(rrecv(server_, &octet, 1, 0), 1);
  EXPECT_EQ((std::string_view{memory.data() + 8, 4}), "weft");
  EXPECT_EQ(riowrite(client_, "weft", 4, 8'192, 0), static_cast<std::size_t>(-1));
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(riounmap(server_, memory.data(), memory.size()), 0);
  EXPECT_EQ(riounmap(server_, memory.data(), memory.size()), -1);
  EXPECT_EQ(riomap(client_, memory.data(), memory.size(), PROT_WRITE, 0, -1), -1);  // no map there
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(RSocket, AMappingIsToldOnce) {
  int entries = 4;
  int depth = 16;
  ASSERT_EQ(rsetsockopt(client_, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries), 0);
  ASSERT_EQ(rsetsockopt(client_, SOL_RDMA, RDMA_RQSIZE, &depth, sizeof depth), 0);
  connect();
  std::array<char, 64> memory{};
  ASSERT_EQ(riomap(server_, memory.data(), memory.size(), PROT_WRITE, 0, 0), 0);
  for (int i = 0; i < depth - 1; ++i) {  // the mapping was one of the messages
    ASSERT_EQ(rsend(server_, "x", 1, MSG_DONTWAIT), 1) << i;
  }
  EXPECT_EQ(rsend(server_, "x", 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(riounmap(server_, memory.data(), memory.size()), 0);
}

TEST_F(RSocket, PiecesAreSentAndReceivedAsOneStream) {
  connect();
  char hello[] = "hello ";
  char world[] = "world";
  iovec out[] = {
      {.iov_base = hello, .iov_len = 6},
      {.iov_base = world, .iov_len = 5}
  };
  ASSERT_EQ(rwritev(client_, out, 2), 11);
  std::array<char, 4> first{};
  std::array<char, 7> second{};
  iovec in[] = {
      {.iov_base = first.data(),  .iov_len = first.size() },
      {.iov_base = second.data(), .iov_len = second.size()}
  };
  msghdr message{};
  message.msg_iov = in;
  message.msg_iovlen = 2;
  ASSERT_EQ(rrecvmsg(server_, &message, MSG_WAITALL), 11);
  EXPECT_EQ((std::string_view{second.data(), 7}), "o world");
}

TEST_F(RSocket, OptionsAreWhatWasSet) {
  int value = 1 << 16;
  socklen_t bytes = sizeof value;
  ASSERT_EQ(rsetsockopt(client_, SOL_SOCKET, SO_SNDBUF, &value, sizeof value), 0);
  ASSERT_EQ(rgetsockopt(client_, SOL_SOCKET, SO_SNDBUF, &value, &bytes), 0);
  EXPECT_EQ(value, 1 << 17);  // as sockets double it
  value = 1;
  ASSERT_EQ(rsetsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value), 0);
  value = 0;
  ASSERT_EQ(rgetsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(rsetsockopt(client_, SOL_SOCKET, SO_BROADCAST, &value, sizeof value), -1);
  EXPECT_EQ(errno, ENOTSUP);
  connect();
  EXPECT_EQ(rsetsockopt(client_, SOL_RDMA, RDMA_SQSIZE, &value, sizeof value), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RSocket, SelectTellsByItsSets) {
  connect();
  ASSERT_EQ(rsend(client_, "x", 1, 0), 1);
  fd_set readable{};
  FD_ZERO(&readable);
  FD_SET(server_, &readable);
  FD_SET(client_, &readable);
  timeval wait{.tv_sec = 5, .tv_usec = 0};
  EXPECT_EQ(rselect(std::max(server_, client_) + 1, &readable, nullptr, nullptr, &wait), 1);
  EXPECT_TRUE(FD_ISSET(server_, &readable));
  EXPECT_FALSE(FD_ISSET(client_, &readable));
}

TEST_F(RSocket, OtherKindsOfSocketsAreRefused) {
  EXPECT_EQ(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
  EXPECT_EQ(errno, ENOTSUP);
  char octet{};
  EXPECT_EQ(rrecv(12'345, &octet, 1, 0), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
