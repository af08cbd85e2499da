#pragma once

// The port mapper daemon's table: which local address stands for which mapped one, and how many
// users each mapping has. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "wire/iwpm/socket_address.h"

namespace weft::iwpm {

using wire::iwpm::SocketAddress;

/// A TCP port that MapperServices keeps bound.
using PortHandle = std::uint64_t;

struct MappedPort {
  SocketAddress local;
  SocketAddress mapped;
  std::uint8_t client{};           ///< who may remove it
  std::uint32_t flags{};           ///< wire::iwpm::kFlagNoPortMap
  unsigned references{};           ///< users
  std::optional<PortHandle> port;  ///< none when no port was asked for

  // Of a replay of the kernel's records (Mapper):
  unsigned replayed{};     ///< records of it so far
  unsigned added_since{};  ///< users that came after the replay was asked for
  Instant last_added;      ///< when the last user came
  bool is_from_before{};   ///< it was there when the replay was asked for

  [[nodiscard]] bool is_wildcard() const { return local.is_wildcard(); }
};

class MappedPorts {
 public:
  /// With exactly this local address; null without one.
  [[nodiscard]] MappedPort* find_same(const SocketAddress& local);
  /// With this local address, or the same port where one of both is a wildcard.
  [[nodiscard]] MappedPort* find(const SocketAddress& local);
  /// The same, of mapped addresses.
  [[nodiscard]] const MappedPort* find_mapped(const SocketAddress& mapped) const;

  /// Adds one; no other may have exactly its local address (asserted).
  MappedPort& add(const MappedPort& port);
  void remove(const MappedPort& port);

  [[nodiscard]] std::size_t size() const { return by_local_.size(); }
  [[nodiscard]] std::vector<MappedPort> all() const;
  template <class Visit>
  void for_each(Visit visit) {
    for (auto& [number, port] : by_local_) {
      visit(port);
    }
  }
  void check_invariants() const;

 private:
  using Table = std::multimap<std::uint16_t, MappedPort>;  // by the local port
  Table by_local_;
  std::multimap<std::uint16_t, const MappedPort*> by_mapped_;
};

}  // namespace weft::iwpm
