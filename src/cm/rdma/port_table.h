#pragma once

// Which ports of the port spaces are taken, by which ids: what bind() and listen() refuse. IPv4 and
// IPv6 share a port space, as sockets do: an unspecified IPv6 address takes IPv4's too unless it
// says that it does not (RDMA_OPTION_ID_AFONLY). Pure; one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "cm/rdma/socket_address.h"
#include "cm/rdma/types.h"

namespace weft::cm {

class PortTable {
 public:
  /// What an id wants of its port.
  struct Claim {
    SocketAddress address{};
    bool af_only{};
    bool reuses_address{};
    bool listens{};
  };

  /// Ports that are chosen for ids (RFC 6335 §6).
  static constexpr std::uint16_t kFirstEphemeral = 49'152;

  explicit PortTable(std::uint64_t seed) : random_(seed) {}

  /// Takes the address's port, or a free one for 0, and says which.
  [[nodiscard]] Result<std::uint16_t> claim(RdmaCmId id, PortSpace space, const Claim& claim);
  /// The id listens from now on, which no other at the same address may.
  [[nodiscard]] Result<void> listen(RdmaCmId id, PortSpace space, std::uint16_t port);
  /// The id of a connection shares its listener's port and is not here: nothing happens.
  void release(RdmaCmId id, PortSpace space, std::uint16_t port);
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Holder {
    RdmaCmId id{};
    Claim claim{};
  };
  using Key = std::pair<PortSpace, std::uint16_t>;

  [[nodiscard]] const Holder* conflict(const std::vector<Holder>& holders, const Claim& claim,
                                       RdmaCmId except) const;

  std::map<Key, std::vector<Holder>> holders_;
  std::size_t size_{};
  Random random_;
};

}  // namespace weft::cm
