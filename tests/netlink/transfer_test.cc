// Datagrams: every function that sends or receives, from the kernel's side and from other programs.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "netlink_host.h"

namespace weft {
namespace {

class Transfer : public NetlinkHost {
 protected:
  /// A socket with an address.
  static os::UniqueFd open_at(std::uint32_t port, std::uint32_t groups = 0) {
    os::UniqueFd fd = open_socket();
    sockaddr_nl address = netlink_address(port, groups);
    EXPECT_EQ(bind(fd.get(), generic(address), sizeof address), 0) << std::strerror(errno);
    return fd;
  }
  static ssize_t send_to(int fd, std::string_view text, std::uint32_t port,
                         std::uint32_t groups = 0) {
    sockaddr_nl address = netlink_address(port, groups);
    return sendto(fd, text.data(), text.size(), 0, generic(address), sizeof address);
  }
};

TEST_F(Transfer, EveryWayToSendAndReceiveReachesTheKernelsSide) {
  const os::UniqueFd fd = open_socket();
  const auto datagram = list_devices();
  const auto size = static_cast<ssize_t>(datagram.size());
  EXPECT_EQ(send(fd.get(), datagram.data(), datagram.size(), 0), size);
  expect_devices(fd.get());
  EXPECT_EQ(write(fd.get(), datagram.data(), datagram.size()), size);
  expect_devices(fd.get());
  auto copy = datagram;
  std::array<iovec, 2> parts = {
      iovec{.iov_base = copy.data(),     .iov_len = 7              },
      iovec{.iov_base = copy.data() + 7, .iov_len = copy.size() - 7}
  };
  EXPECT_EQ(writev(fd.get(), parts.data(), parts.size()), size);
  expect_devices(fd.get());
  sockaddr_nl kernel = netlink_address(0);
  msghdr message{};
  message.msg_name = &kernel;
  message.msg_namelen = sizeof kernel;
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  EXPECT_EQ(sendmsg(fd.get(), &message, 0), size);
  expect_devices(fd.get());
  std::array<mmsghdr, 2> several{};
  several[0].msg_hdr = several[1].msg_hdr = message;
  EXPECT_EQ(sendmmsg(fd.get(), several.data(), several.size(), 0), 2);
  EXPECT_EQ(several[1].msg_len, datagram.size());
  expect_devices(fd.get());
  expect_devices(fd.get());

  std::array<char, 8'192> buffer{};
  EXPECT_EQ(write(fd.get(), datagram.data(), datagram.size()), size);
  ssize_t count = read(fd.get(), buffer.data(), buffer.size());
  ASSERT_GE(count, static_cast<ssize_t>(sizeof(nlmsghdr)));
  EXPECT_EQ(header_of(buffer.data()).nlmsg_type,
            RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
  EXPECT_EQ(header_of(buffer.data()).nlmsg_pid, static_cast<std::uint32_t>(getpid()));
  while (recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Transfer, TellsOfTheSenderAndOfWhatWasCutOff) {
  const os::UniqueFd receiver = open_at(500);
  const os::UniqueFd sender = open_at(501);
  ASSERT_EQ(send_to(sender.get(), "hello", 500), 5);
  std::array<char, 3> small{};
  sockaddr_nl from{};
  socklen_t length = sizeof from;
  EXPECT_EQ(recvfrom(receiver.get(), small.data(), small.size(), MSG_PEEK | MSG_TRUNC,
                     generic(from), &length),
            5)
      << "the whole length";
  EXPECT_EQ(from.nl_family, AF_NETLINK);
  EXPECT_EQ(from.nl_pid, 501U);
  EXPECT_EQ(from.nl_groups, 0U);
  iovec part{.iov_base = small.data(), .iov_len = small.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  EXPECT_EQ(recvmsg(receiver.get(), &message, 0), 3);
  EXPECT_NE(message.msg_flags & MSG_TRUNC, 0);
  EXPECT_EQ(std::string_view(small.data(), 3), "hel");
  EXPECT_EQ(recv(receiver.get(), small.data(), small.size(), MSG_DONTWAIT), -1)
      << "the rest is lost";
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(send_to(sender.get(), "x", 999), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(Transfer, GroupsComeWithTheirNumber) {
  const os::UniqueFd member = open_at(500, 1U << (RDMA_NL_GROUP_LS - 1));
  const os::UniqueFd sender = open_at(501);
  const int yes = 1;
  ASSERT_EQ(setsockopt(member.get(), SOL_NETLINK, NETLINK_PKTINFO, &yes, sizeof yes), 0);
  ASSERT_EQ(setsockopt(member.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes), 0);
  // Also to an address, for what goes to none goes to the kernel.
  const os::UniqueFd other = open_at(502);
  ASSERT_EQ(send_to(sender.get(), "news", 502, 1U << (RDMA_NL_GROUP_LS - 1)), 4);
  std::array<char, 64> buffer{};
  alignas(cmsghdr) std::array<char, 256> control{};
  sockaddr_nl from{};
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ASSERT_TRUE(is_readable(member.get()));
  ASSERT_EQ(recvmsg(member.get(), &message, 0), 4);
  EXPECT_EQ(from.nl_pid, 501U);
  EXPECT_EQ(from.nl_groups, 1U << (RDMA_NL_GROUP_LS - 1));
  bool has_group = false;
  bool has_sender = false;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_NETLINK && each->cmsg_type == NETLINK_PKTINFO) {
      nl_pktinfo group{};
      std::memcpy(&group, CMSG_DATA(each), sizeof group);
      EXPECT_EQ(group.group, static_cast<std::uint32_t>(RDMA_NL_GROUP_LS));
      has_group = true;
    } else if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials{};
      std::memcpy(&credentials, CMSG_DATA(each), sizeof credentials);
      EXPECT_EQ(credentials.pid, getpid());
      EXPECT_EQ(credentials.uid, getuid());
      has_sender = true;
    }
  }
  EXPECT_TRUE(has_group);
  EXPECT_TRUE(has_sender);
  // The kernel's are nobody's.
  const auto datagram = list_devices();
  ASSERT_GT(send(member.get(), datagram.data(), datagram.size(), 0), 0);
  message.msg_controllen = control.size();
  message.msg_namelen = sizeof from;
  ASSERT_GT(recvmsg(member.get(), &message, 0), 0);
  EXPECT_EQ(from.nl_pid, 0U);
  ucred kernel{.pid = 1, .uid = 1, .gid = 1};
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_CREDENTIALS) {
      std::memcpy(&kernel, CMSG_DATA(each), sizeof kernel);
    }
  }
  EXPECT_EQ(kernel.pid, 0);
  EXPECT_EQ(kernel.uid, 0U);
}

TEST_F(Transfer, SeveralAtOnce) {
  const os::UniqueFd receiver = open_at(500);
  const os::UniqueFd sender = open_at(501);
  for (const char* const text : {"a", "bb", "ccc"}) {
    ASSERT_GT(send_to(sender.get(), text, 500), 0);
  }
  std::array<std::array<char, 16>, 4> buffers{};
  std::array<iovec, 4> parts{};
  std::array<mmsghdr, 4> messages{};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    parts[i] = {.iov_base = buffers[i].data(), .iov_len = buffers[i].size()};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  EXPECT_EQ(recvmmsg(receiver.get(), messages.data(), messages.size(), MSG_WAITFORONE, nullptr), 3);
  EXPECT_EQ(messages[2].msg_len, 3U);
  EXPECT_EQ(recvmmsg(receiver.get(), messages.data(), messages.size(), MSG_DONTWAIT, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
}

/// Messages of one octet each to a port.
class Many {
 public:
  Many(std::size_t count, std::uint32_t port)
      : to_(netlink_address(port)), octets_(count), parts_(count), messages_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      octets_[i] = static_cast<char>(i);
      parts_[i] = {.iov_base = &octets_[i], .iov_len = 1};
      messages_[i].msg_hdr.msg_name = &to_;
      messages_[i].msg_hdr.msg_namelen = sizeof to_;
      messages_[i].msg_hdr.msg_iov = &parts_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  int send(int fd) {
    return sendmmsg(fd, messages_.data(), static_cast<unsigned>(messages_.size()), 0);
  }
  std::vector<iovec>& parts() { return parts_; }
  [[nodiscard]] const std::vector<mmsghdr>& messages() const { return messages_; }

 private:
  sockaddr_nl to_;
  std::vector<char> octets_;
  std::vector<iovec> parts_;
  std::vector<mmsghdr> messages_;
};

TEST_F(Transfer, SeveralToOneProgramHaveArrivedWhenTheyAreSent) {
  const os::UniqueFd receiver = open_at(500);
  const os::UniqueFd sender = open_at(501);
  constexpr std::size_t kCount = 150;
  Many many{kCount, 500};
  std::string large(70'000, 'l');
  many.parts()[140] = {.iov_base = large.data(), .iov_len = 40'000};
  many.parts()[141] = {.iov_base = large.data(),
                       .iov_len = 40'000};  // not in a frame with that one
  ASSERT_EQ(many.send(sender.get()), static_cast<int>(kCount));
  EXPECT_EQ(many.messages()[3].msg_len, 1U);
  EXPECT_EQ(many.messages()[140].msg_len, 40'000U);
  std::vector<char> buffer(65'536);
  for (std::size_t i = 0; i < kCount; ++i) {
    sockaddr_nl from{};
    socklen_t length = sizeof from;
    const ssize_t size = recvfrom(receiver.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                  generic(from), &length);
    ASSERT_EQ(size, i == 140 || i == 141 ? 40'000 : 1) << i;
    EXPECT_EQ(from.nl_pid, 501U);
    if (size == 1) {
      EXPECT_EQ(buffer[0], static_cast<char>(i));
    }
  }
}

TEST_F(Transfer, SeveralAreTakenAsFarAsThereIsSomebodyWithRoom) {
  const os::UniqueFd sender = open_at(501);
  Many to_nobody{3, 500};
  EXPECT_EQ(to_nobody.send(sender.get()), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  const os::UniqueFd slow = open_at(500);
  const int room = 2'048;
  ASSERT_EQ(setsockopt(slow.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  std::string large(3'000, 'l');
  Many many{20, 500};
  for (iovec& part : many.parts()) {
    part = {.iov_base = large.data(), .iov_len = large.size()};
  }
  int sent = 0;
  int last = 0;
  bool is_part = false;  // some were taken, and the rest was not
  for (int turn = 0; turn < 500 && (last = many.send(sender.get())) > 0; ++turn) {
    sent += last;
    is_part = is_part || last < 20;
  }
  EXPECT_EQ(last, -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(is_part);
  std::vector<char> buffer(4'096);
  int received = 0;
  for (int overruns = 0; received < sent || overruns == 0;) {
    ASSERT_TRUE(is_readable(slow.get()));
    const bool is_datagram = recv(slow.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) > 0;
    received += is_datagram ? 1 : 0;
    overruns += is_datagram ? 0 : 1;
  }
  EXPECT_EQ(received, sent);
}

TEST_F(Transfer, IsReadableByAllThatWaitForDescriptors) {
  const os::UniqueFd fd = open_socket(SOCK_RAW | SOCK_NONBLOCK);
  const os::UniqueFd set{epoll_create1(EPOLL_CLOEXEC)};
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd.get()}};
  ASSERT_EQ(epoll_ctl(set.get(), EPOLL_CTL_ADD, fd.get(), &interest), 0);
  epoll_event event{};
  EXPECT_EQ(epoll_wait(set.get(), &event, 1, 0), 0);
  EXPECT_FALSE(is_readable(fd.get(), 0));
  const auto datagram = list_devices();
  ASSERT_GT(send(fd.get(), datagram.data(), datagram.size(), 0), 0);
  EXPECT_TRUE(is_readable(fd.get(), 0)) << "the kernel's side answers while one sends";
  EXPECT_EQ(epoll_wait(set.get(), &event, 1, 0), 1);
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(fd.get(), &readable);
  timeval none{};
  EXPECT_EQ(select(fd.get() + 1, &readable, nullptr, nullptr, &none), 1);
  expect_devices(fd.get());
  EXPECT_FALSE(is_readable(fd.get(), 0));
}

TEST_F(Transfer, RefusesWhatLinuxRefuses) {
  const os::UniqueFd fd = open_socket();
  const auto datagram = list_devices();
  sockaddr_nl wrong = netlink_address(0);
  wrong.nl_family = AF_INET;
  EXPECT_EQ(sendto(fd.get(), datagram.data(), datagram.size(), 0, generic(wrong), sizeof wrong),
            -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(send(fd.get(), datagram.data(), 0, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(send(fd.get(), datagram.data(), datagram.size(), MSG_OOB), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const std::vector<char> huge(1 << 20);
  EXPECT_EQ(send(fd.get(), huge.data(), huge.size(), 0), -1);
  EXPECT_EQ(errno, EMSGSIZE);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  auto copy = datagram;
  iovec part{.iov_base = copy.data(), .iov_len = copy.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  *rights = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  EXPECT_EQ(sendmsg(fd.get(), &message, 0), -1);
  EXPECT_EQ(errno, EINVAL) << "no descriptors pass over netlink";
}

TEST_F(Transfer, AReaderThatWasTooSlowGetsEnobufsOnce) {
  const os::UniqueFd slow = open_at(500);
  const os::UniqueFd sender = open_at(501);
  const int room = 2'048;
  ASSERT_EQ(setsockopt(slow.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  const std::string big(3'000, 'x');
  int sent = 0;
  while (send_to(sender.get(), big, 500) > 0 && sent < 10'000) {
    ++sent;
  }
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_LT(sent, 10'000);
  int received = 0;
  int overruns = 0;
  std::vector<char> buffer(4'096);
  while (received < sent || overruns == 0) {
    ASSERT_TRUE(is_readable(slow.get()));
    if (recv(slow.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
      ++received;
    } else {
      ASSERT_EQ(errno, ENOBUFS);
      ++overruns;
    }
  }
  EXPECT_EQ(overruns, 1);
  EXPECT_EQ(send_to(sender.get(), "again", 500), 5);
  EXPECT_EQ(recv(slow.get(), buffer.data(), buffer.size(), 0), 5);
}

TEST_F(Transfer, ThreadsMayShareASocket) {
  const os::UniqueFd shared = open_socket();
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&shared] {
      const os::UniqueFd own = open_socket();
      for (int turn = 0; turn < kEach; ++turn) {
        const auto datagram = list_devices(static_cast<std::uint32_t>(turn));
        EXPECT_GT(send(own.get(), datagram.data(), datagram.size(), 0), 0);
        expect_devices(own.get(), static_cast<std::uint32_t>(turn));
        EXPECT_GT(send(shared.get(), datagram.data(), datagram.size(), 0), 0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  int ends = 0;
  std::array<char, 16'384> buffer{};
  while (ends < kThreads * kEach && is_readable(shared.get())) {
    ssize_t left = recv(shared.get(), buffer.data(), buffer.size(), 0);
    for (const char* at = buffer.data(); left >= static_cast<ssize_t>(sizeof(nlmsghdr));) {
      const nlmsghdr header = header_of(at);
      ends += header.nlmsg_type == NLMSG_DONE ? 1 : 0;
      at += NLMSG_ALIGN(header.nlmsg_len);
      left -= static_cast<ssize_t>(NLMSG_ALIGN(header.nlmsg_len));
    }
  }
  EXPECT_EQ(ends, kThreads * kEach);
}

TEST_F(Transfer, EndsWithTheFabric) {
  const os::UniqueFd fd = open_socket();
  fabric_.end();
  char octet{};
  EXPECT_EQ(recv(fd.get(), &octet, 1, 0), -1);
  EXPECT_EQ(errno, ENETDOWN);
  const auto datagram = list_devices();
  EXPECT_EQ(send(fd.get(), datagram.data(), datagram.size(), 0), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace weft
