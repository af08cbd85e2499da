#pragma once

// What the kernel of a host knows of an interface by itself, and the fabric's daemon, which is that
// for RDMA, does not: the addresses of an interface that a program carries (uabi::CarryAddresses).
// RDMA-CM then has them as the host's own, and asks the program for neighbours of the interface,
// whose table is the only one of them. Any one thread.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "base/identifiers.h"

#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "os/packet_socket.h"
#include "uabi/messages.h"

namespace weft::programs {

class KernelAddresses {
 public:
  /// Of the host that this process is on. Refused: there is no daemon.
  [[nodiscard]] static Result<KernelAddresses> open();

  /// Of which port of the host, counted from 0, and partition; always the same.
  struct Place {
    std::uint32_t port_of_host{};
    PKey pkey{};
  };
  /// Those of the interface from now on, until the next call or the end of this object; waits until
  /// RDMA-CM has them. With the daemon's reason: it does not take them.
  [[nodiscard]] Result<void> set(const Place& place, std::span<const InterfaceAddress> addresses);

  /// Who somebody is waiting for, for so long.
  struct Question {
    IpAddress neighbor{};
    Duration within{};
  };
  /// Readable when there may be a question; after set() there may be one, too.
  [[nodiscard]] int fd() const { return socket_.fd(); }
  /// None: nobody waits for anybody now. Refused: the daemon is gone.
  [[nodiscard]] Result<std::optional<Question>> take_question();
  /// The groups that the interface is a member of to send alone: the daemon leaves them at the end.
  [[nodiscard]] Result<void> hold_groups(std::span<const Gid> mgids);
  [[nodiscard]] Result<void> answer(const IpAddress& neighbor, const Gid& gid);

 private:
  explicit KernelAddresses(os::PacketSocket socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Result<uabi::Message> receive();

  os::PacketSocket socket_;
  std::deque<uabi::AskNeighbor> asked_;  // that came before the answer to set()
};

}  // namespace weft::programs
