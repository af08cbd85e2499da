#pragma once

// A netlink socket (netlink(7)) that does not block. Any one thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

class NetlinkSocket {
 public:
  /// NETLINK_RDMA.
  static constexpr int kRdma = 20;

  /// With an address of the kernel's choice, in these groups. NotSupported: there is no such
  /// protocol here.
  [[nodiscard]] static Result<NetlinkSocket> open(int protocol,
                                                  std::span<const std::uint32_t> groups);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint32_t port() const { return port_; }
  /// Octets that may wait to be read; the system may allow fewer.
  void set_room(std::uint32_t octets);

  /// To the socket with that address, 0 is the kernel; and to the group, unless it is 0.
  [[nodiscard]] Result<void> send(std::uint32_t port, std::uint32_t group, ByteSpan datagram);

  /// Datagrams to the socket with that address, in few calls of the system. Fails if not all of
  /// them were sent; those before the first that was not have been.
  [[nodiscard]] Result<void> send_many(std::uint32_t port,
                                       std::span<const std::vector<std::byte>> datagrams);

  struct Received {
    bool is_overrun{};     ///< no datagram: some that were sent here are lost
    std::uint32_t port{};  ///< of the sender; 0: the kernel
    ByteSpan bytes{};      ///< until the next receive() or receive_many()
  };
  /// None: nothing waits.
  [[nodiscard]] Result<std::optional<Received>> receive();
  /// As many as wait, up to kTogether.
  [[nodiscard]] Result<std::span<const Received>> receive_many();
  static constexpr std::size_t kTogether = 64;  // policy

 private:
  explicit NetlinkSocket(UniqueFd fd);

  static constexpr std::size_t kMostOctets = 65'536;

  UniqueFd fd_;
  std::uint32_t port_{};
  std::unique_ptr<std::byte[]> buffer_;  // of one, or of kTogether; not touched until it is used
  bool has_room_for_many_{};
  std::vector<Received> received_;
};

}  // namespace weft::os
