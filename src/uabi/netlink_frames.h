#pragma once

// The protocol between programs' RDMA netlink sockets and the daemon: one frame per datagram of an
// AF_UNIX SOCK_SEQPACKET connection to kNetlinkSocket in the fabric's directory, native byte order.
// A connection is a socket, and its descriptor is the program's own: poll(), fork() and exec() work
// on it by themselves. What the socket is (address, groups, options) only the daemon knows, so that
// every process that holds the descriptor sees the same.
//
// Each frame of a program carries one descriptor, an end of a socket pair. The daemon sends one
// NetlinkAnswer there when the frame has had its effect, and closes it; of a frame without an
// answer the connection ends. So answers to requests never mix with datagrams that arrive, and
// sending is over when the kernel's side has answered, as with netlink.
//
// Plain types only: a library that every program loads includes this.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace weft::uabi {

/// Raised with every change of a frame; the daemon refuses any other.
inline constexpr std::uint32_t kNetlinkVersion = 2;

/// The daemon's socket, in the fabric's directory.
inline constexpr char kNetlinkSocket[] = "rdma-netlink";

/// Limits; policy. Linux sends datagrams up to the socket's send buffer.
inline constexpr std::size_t kMaxNetlinkDatagram = 65'536;
inline constexpr std::size_t kMaxNetlinkHostName = 64;

enum class NetlinkFrameKind : std::uint32_t {
  // Program to daemon, with one descriptor each.
  Open = 1,    ///< first frame; value: kNetlinkVersion; port: SOCK_RAW or SOCK_DGRAM; host's name
  Bind,        ///< value: mask of groups; port: 0 for the daemon to choose
  Connect,     ///< the default destination; value: mask of groups; port
  Disconnect,  ///< no default destination
  Send,        ///< a datagram to the default destination
  SendTo,      ///< a datagram; value: mask of groups; port
  Join,        ///< value: number of a group
  Leave,       ///< likewise
  SetOption,   ///< port: the option's number (linux/netlink.h); value: not 0 sets it
  SetRoom,     ///< value: octets that may wait for the reader (SO_RCVBUF)
  Describe,    ///< nothing but the answer
  /// Several datagrams to one port (sendmmsg()), each behind its length in four octets; port. The
  /// first that is not taken ends it: the answer says why, and how many were.
  SendMany,
  // Daemon to program, without descriptors.
  Datagram = 32,  ///< port: the sender; pid: its process; value: the group, with kHasPacketInfo
  Overrun,        ///< datagrams were lost here for want of room (ENOBUFS)
};

/// Of a Datagram's value: the socket wants NETLINK_PKTINFO.
inline constexpr std::uint32_t kHasPacketInfo = 0x8000'0000;

struct NetlinkFrameHead {
  NetlinkFrameKind kind{};
  std::uint32_t value{};
  std::uint32_t port{};
  std::uint32_t pid{};
};
static_assert(sizeof(NetlinkFrameHead) == 16);

/// What a socket is after a frame.
struct NetlinkAnswer {
  std::int32_t error{};  ///< 0 or an errno
  std::uint32_t type{};  ///< as in Open
  std::uint32_t port{};  ///< 0: not bound
  std::uint32_t groups{};
  std::uint32_t peer_port{};
  std::uint32_t peer_groups{};
  std::uint32_t options{};  ///< bit n: option n is set
  std::uint32_t taken{};    ///< of SendMany: datagrams
};
static_assert(sizeof(NetlinkAnswer) == 32);

/// Takes the first datagram off those of a SendMany; none: the rest is empty, or not whole.
[[nodiscard]] inline std::optional<std::span<const std::byte>> take_netlink_datagram(
    std::span<const std::byte>& rest) {
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) {
    return std::nullopt;
  }
  std::memcpy(&length, rest.data(), sizeof length);
  if (length == 0 || length > rest.size() - sizeof length) {
    return std::nullopt;
  }
  const auto datagram = rest.subspan(sizeof length, length);
  rest = rest.subspan(sizeof length + length);
  return datagram;
}

/// A frame as it came; a view of its memory.
struct NetlinkFrame {
  NetlinkFrameHead head;
  std::span<const std::byte> payload;
};

/// The frame of a program; none: too short, of a kind that no program sends, or with a payload that
/// does not belong there.
[[nodiscard]] inline std::optional<NetlinkFrame> parse_netlink_frame(
    std::span<const std::byte> bytes) {
  NetlinkFrame frame;
  if (bytes.size() < sizeof frame.head) {
    return std::nullopt;
  }
  std::array<std::uint32_t, 4> words{};
  std::memcpy(words.data(), bytes.data(), sizeof words);
  using enum NetlinkFrameKind;
  if (words[0] < static_cast<std::uint32_t>(Open) ||
      words[0] > static_cast<std::uint32_t>(SendMany)) {
    return std::nullopt;
  }
  frame.head = {.kind = static_cast<NetlinkFrameKind>(words[0]),
                .value = words[1],
                .port = words[2],
                .pid = words[3]};
  frame.payload = bytes.subspan(sizeof frame.head);
  std::size_t most = 0;
  if (frame.head.kind == Open) {
    most = kMaxNetlinkHostName;
  } else if (frame.head.kind == Send || frame.head.kind == SendTo || frame.head.kind == SendMany) {
    most = kMaxNetlinkDatagram;
  }
  if (frame.payload.size() > most) {
    return std::nullopt;
  }
  if (frame.head.kind == SendMany) {
    std::span<const std::byte> rest = frame.payload;
    while (take_netlink_datagram(rest)) {
    }
    if (!rest.empty() || frame.payload.empty()) {
      return std::nullopt;
    }
  }
  return frame;
}

}  // namespace weft::uabi
