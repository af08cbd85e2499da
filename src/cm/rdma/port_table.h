#pragma once

// Port numbers in use by RDMA-CM ids, for each port space: what bind and listen check. IPv4 and
// IPv6 share the numbers, as sockets do: an unspecified IPv6 address also claims IPv4 unless
// RDMA_OPTION_ID_AFONLY is set. Ids of different QP types may have the same AF_IB address, since a
// request names its type (IPoIB's RC and UC share a service ID, RFC 4755 §3.5); Linux refuses the
// second. Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "cm/rdma/socket_address.h"
#include "cm/rdma/types.h"

namespace weft::cm {

/// Tracks which id holds which port number of which port space.
class PortTable {
 public:
  /// What an id claims: an address with its port number, and the conditions for sharing it.
  struct Claim {
    SocketAddress address{};
    QpType type{};
    bool af_only{};
    bool reuses_address{};
    bool listens{};
  };

  /// First of the dynamic port numbers (RFC 6335 §6), which are assigned when port 0 is requested.
  static constexpr std::uint16_t kFirstEphemeral = 49'152;

  explicit PortTable(std::uint64_t seed) : random_(seed) {}

  /// Claims the address's port, or assigns a free one for port 0. Returns the port number.
  [[nodiscard]] Result<std::uint16_t> claim(RdmaCmId id, PortSpace space, const Claim& claim);
  /// Marks the id as listening; no other id may listen at the same address.
  [[nodiscard]] Result<void> listen(RdmaCmId id, PortSpace space, std::uint16_t port);
  /// Frees the id's port. Ids of accepted connections share their listener's port and are not in
  /// the table; for these it does nothing.
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
