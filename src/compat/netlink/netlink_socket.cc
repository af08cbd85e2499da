#include "compat/netlink/netlink_socket.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/netlink/answer_pair.h"
#include "compat/netlink/real.h"

namespace weft::compat {
namespace {

constinit const Real<int(int)> real_close{"close"};
constinit const Real<int(int, int, int)> real_socket{"socket"};
constinit const Real<int(int, const sockaddr*, socklen_t)> real_connect{"connect"};
constinit const Real<int(int, sockaddr*, socklen_t*)> real_getpeername{"getpeername"};
constinit const Real<ssize_t(int, const msghdr*, int)> real_sendmsg{"sendmsg"};

/// While one is in scope, a cancelled thread goes on: descriptors of its own are open.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_{};
};

[[nodiscard]] bool find_daemon(sockaddr_un& address) {
  const char* const run = std::getenv("WEFT_RUN");
  const char* const fabric = std::getenv("WEFT_FABRIC");
  if (run == nullptr || fabric == nullptr) {
    return false;
  }
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s/%s", run,
                                   fabric, uabi::kNetlinkSocket);
  return length > 0 && static_cast<std::size_t>(length) < sizeof address.sun_path;
}

/// A program that was executed by another has its descriptors: which of them are such sockets.
void look_at_inherited() {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return;
  }
  alignas(8) std::array<char, 2'048> entries;
  long count = 0;
  while ((count = syscall(SYS_getdents64, folder, entries.data(), entries.size())) > 0) {
    // struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name
    constexpr std::size_t kLengthAt = 16;
    constexpr std::size_t kNameAt = 19;
    for (long at = 0; at < count;) {
      std::uint16_t length{};
      std::memcpy(&length, entries.data() + at + kLengthAt, sizeof length);
      const int fd = std::atoi(entries.data() + at + kNameAt);
      if (fd > 0 && fd != folder && is_connected_to_daemon(fd)) {
        note_netlink(fd);
      }
      at += length;
    }
  }
  real_close(folder);
}

[[gnu::constructor]] void begin() {
  const int before = errno;
  become_owner();
  pthread_atfork(nullptr, nullptr, become_owner);
  if (is_on_host()) {
    look_at_inherited();
  }
  errno = before;
}

/// A frame with the descriptor where its answer goes.
[[nodiscard]] bool send_frame(int fd, const uabi::NetlinkFrameHead& head, const iovec* parts,
                              std::size_t count, int answer_to) {
  std::array<iovec, IOV_MAX> all;
  if (count >= all.size()) {
    errno = EMSGSIZE;
    return false;
  }
  all[0] = {.iov_base = const_cast<uabi::NetlinkFrameHead*>(&head), .iov_len = sizeof head};
  std::memcpy(all.data() + 1, parts, count * sizeof *parts);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof answer_to)> control{};
  msghdr message{};
  message.msg_iov = all.data();
  message.msg_iovlen = count + 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof answer_to);
  std::memcpy(CMSG_DATA(rights), &answer_to, sizeof answer_to);
  while (real_sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      errno = ECONNREFUSED;
    }
    if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_connected_to_daemon(int fd) {
  const int before = errno;
  sockaddr_un peer{};
  socklen_t length = sizeof peer;
  constexpr std::size_t kName = sizeof uabi::kNetlinkSocket - 1;
  bool is_one =
      real_getpeername(fd, static_cast<sockaddr*>(static_cast<void*>(&peer)), &length) == 0 &&
      peer.sun_family == AF_UNIX;
  if (is_one) {
    const std::size_t path = strnlen(peer.sun_path, sizeof peer.sun_path);
    is_one = path > kName && peer.sun_path[path - kName - 1] == '/' &&
             std::memcmp(peer.sun_path + path - kName, uabi::kNetlinkSocket, kName) == 0;
  }
  if (!is_one) {
    forget_netlink(fd);
  }
  errno = before;
  return is_one;
}

void note_netlink(int fd) {
  if (fd >= 0 && fd < kMaxDescriptors) {
    const auto place = static_cast<unsigned>(fd);
    suspects[place / 64].fetch_or(std::uint64_t{1} << place % 64, std::memory_order_relaxed);
  }
}

void forget_netlink(int fd) {
  if (is_suspect(fd) && is_own_memory()) {
    const auto place = static_cast<unsigned>(fd);
    suspects[place / 64].fetch_and(~(std::uint64_t{1} << place % 64), std::memory_order_relaxed);
  }
}

bool is_on_host() {
  return std::getenv("WEFT_RUN") != nullptr && std::getenv("WEFT_FABRIC") != nullptr &&
         std::getenv("WEFT_HOST") != nullptr;
}

int open_netlink(int type) {
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (kind != SOCK_RAW && kind != SOCK_DGRAM) {
    errno = ESOCKTNOSUPPORT;
    return -1;
  }
  sockaddr_un daemon{};
  if (!find_daemon(daemon)) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  const int fd = real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return -1;
  }
  int error = 0;
  uabi::NetlinkAnswer answer{};
  char* const host = std::getenv("WEFT_HOST");
  const iovec name{.iov_base = host, .iov_len = std::strlen(host)};
  if (fd >= kMaxDescriptors) {
    error = EMFILE;
  } else if (real_connect(fd, static_cast<sockaddr*>(static_cast<void*>(&daemon)), sizeof daemon) !=
             0) {
    error = EPROTONOSUPPORT;  // as a kernel without RDMA
  } else if (!ask_daemon(fd,
                         {.kind = uabi::NetlinkFrameKind::Open,
                          .value = uabi::kNetlinkVersion,
                          .port = static_cast<std::uint32_t>(kind),
                          .pid = static_cast<std::uint32_t>(getpid())},
                         &name, 1, answer)) {
    error = errno;
  } else if ((type & SOCK_NONBLOCK) != 0) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  if (error == 0 && (type & SOCK_CLOEXEC) == 0) {
    fcntl(fd, F_SETFD, 0);
  }
  if (error != 0) {
    real_close(fd);
    errno = error;
    return -1;
  }
  note_netlink(fd);
  return fd;
}

bool ask_daemon(int fd, const uabi::NetlinkFrameHead& head, const iovec* parts, std::size_t count,
                uabi::NetlinkAnswer& answer) {
  const NoCancellation whole;
  const int before = errno;
  AnswerPair pair;
  if (!pair.is_made()) {
    return false;
  }
  int error = 0;
  if (!send_frame(fd, head, parts, count, pair.daemons_end()) || !pair.await(fd, answer)) {
    error = errno;
  } else {
    error = answer.error;
  }
  errno = error != 0 ? error : before;
  return error == 0;
}

}  // namespace weft::compat

extern "C" {

/// For the verbs library: whether a program's netlink sockets are served here.
[[gnu::visibility("default")]] int weft_netlink_is_served() {
  return weft::compat::is_on_host() ? 1 : 0;
}

}  // extern "C"
