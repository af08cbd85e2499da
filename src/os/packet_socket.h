#pragma once

// Packets with descriptors over AF_UNIX SOCK_SEQPACKET. What the bytes mean is their users'
// business: they are foreign.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// The most descriptors that come with one packet; of more, the packet is refused.
inline constexpr std::size_t kMostPassedDescriptors = 8;

/// What came in one packet.
struct ReceivedPacket {
  std::size_t bytes{};
  std::vector<UniqueFd> descriptors;
};

/// One end of a connection, which it owns. Any one thread may send while another receives; neither
/// waits.
class PacketSocket {
 public:
  PacketSocket() = default;
  explicit PacketSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Refused: nobody listens at `path`.
  [[nodiscard]] static Result<PacketSocket> connect(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  /// TryAgain: the peer's buffer is full, nothing was sent. Refused: the peer is gone.
  [[nodiscard]] Result<void> send(ByteSpan packet, std::span<const int> descriptors) const;

  /// Several packets of two parts each, without descriptors: returns how many were sent, as many as
  /// the peer's buffer had room for. TryAgain: none. Refused: the peer is gone.
  using Parts = std::array<ByteSpan, 2>;
  [[nodiscard]] Result<std::size_t> send_many(std::span<const Parts> packets) const;

  /// TryAgain: there is none. Refused: the peer is gone. Io: it was longer than `room` or had too
  /// many descriptors, and is lost.
  [[nodiscard]] Result<ReceivedPacket> receive(MutableByteSpan room) const;

 private:
  UniqueFd fd_;
};

/// A listening socket at `path`, which must not exist.
[[nodiscard]] Result<UniqueFd> listen_at(const std::string& path);

}  // namespace weft::os
