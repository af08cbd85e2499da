#include "os/packet_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace weft::os {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kMostPassedDescriptors * sizeof(int));

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::InvalidArgument,
                "socket path {} is longer than {} characters: choose a shorter WEFT_RUN", path,
                sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

[[nodiscard]] const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

/// After a call that `errno` tells of. Who closes a socket before it has read everything resets it.
[[nodiscard]] std::unexpected<Error> failed(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return fail(ErrorCode::TryAgain, "{}: {}", what, std::strerror(errno));
  }
  if (errno == EPIPE || errno == ECONNRESET) {
    return fail(ErrorCode::Refused, "the other end closed the connection");
  }
  return fail(ErrorCode::Refused, "{}: {}", what, std::strerror(errno));
}

std::vector<UniqueFd> take_descriptors(msghdr& header) {
  std::vector<UniqueFd> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd{};
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        taken.emplace_back(fd);
      }
    }
  }
  return taken;
}

}  // namespace

Result<PacketSocket> PacketSocket::connect(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return std::unexpected(address.error());
  }
  UniqueFd fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!fd) {
    return fail(ErrorCode::Io, "socket: {}", std::strerror(errno));
  }
  if (::connect(fd.get(), generic(*address), sizeof *address) != 0) {
    return fail(errno == ENOENT || errno == ECONNREFUSED ? ErrorCode::Refused : ErrorCode::Io,
                "nobody answers at {} ({})", path, std::strerror(errno));
  }
  return PacketSocket{std::move(fd)};
}

Result<void> PacketSocket::send(ByteSpan packet, std::span<const int> descriptors) const {
  WEFT_ASSERT(descriptors.size() <= kMostPassedDescriptors,
              "packets have a bounded number of descriptors");
  iovec part{.iov_base = const_cast<std::byte*>(packet.data()), .iov_len = packet.size()};
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  while (sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) {
      continue;
    }
    return failed("packet not sent");
  }
  return {};
}

Result<std::size_t> PacketSocket::send_many(std::span<const Parts> packets) const {
  constexpr std::size_t kMost = 64;  // of one call of the system
  std::array<std::array<iovec, 2>, kMost> parts;
  std::array<mmsghdr, kMost> headers{};
  std::size_t sent = 0;
  while (sent < packets.size()) {
    const auto turn = packets.subspan(sent, std::min(kMost, packets.size() - sent));
    for (std::size_t i = 0; i < turn.size(); ++i) {
      for (std::size_t part = 0; part < turn[i].size(); ++part) {
        parts[i][part] = {.iov_base = const_cast<std::byte*>(turn[i][part].data()),
                          .iov_len = turn[i][part].size()};
      }
      headers[i].msg_hdr.msg_iov = parts[i].data();
      headers[i].msg_hdr.msg_iovlen = parts[i].size();
    }
    const int done = sendmmsg(fd_.get(), headers.data(), static_cast<unsigned>(turn.size()),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done < 0 && sent == 0) {
      return failed("packet not sent");
    }
    sent += static_cast<std::size_t>(std::max(done, 0));
    if (done < static_cast<int>(turn.size())) {
      break;
    }
  }
  return sent;
}

Result<ReceivedPacket> PacketSocket::receive(MutableByteSpan room) const {
  iovec part{.iov_base = room.data(), .iov_len = room.size()};
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = -1;
  while ((count = recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) {
      continue;
    }
    return failed("connection");
  }
  if (count == 0) {
    return fail(ErrorCode::Refused, "the other end closed the connection");
  }
  ReceivedPacket received{.bytes = static_cast<std::size_t>(count),
                          .descriptors = take_descriptors(header)};
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(ErrorCode::Io, "an oversized packet was refused");
  }
  return received;
}

Result<UniqueFd> listen_at(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return std::unexpected(address.error());
  }
  UniqueFd fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  constexpr int kBacklog = 512;  // policy: a parallel job's processes come at once
  if (!fd || bind(fd.get(), generic(*address), sizeof *address) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return fail(ErrorCode::Io, "control socket {}: {}", path, std::strerror(errno));
  }
  return fd;
}

}  // namespace weft::os
