#pragma once

// What the kernel's side remembers of mappings: its own, which a restarted daemon is told, and
// those of peers that a daemon has told of. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "wire/iwpm/netlink_messages.h"
#include "wire/iwpm/socket_address.h"

namespace weft::iwpm {

using wire::iwpm::SocketAddress;

/// The seed's iwpm_compare_sockaddr: 0 for the same family, IP address and TCP port, else 1. Those
/// of an unknown family equal nothing.
[[nodiscard]] int compare_sockaddr(const SocketAddress& a, const SocketAddress& b);

/// What the seed's iwpm_print_sockaddr writes to the log: `message`, address and port.
[[nodiscard]] std::string print_sockaddr(const SocketAddress& address, std::string_view message);

/// What a connecting peer is called, and what it is mapped to: the seed's struct iwpm_remote_info.
struct RemoteInfo {
  std::uint8_t client{};
  SocketAddress mapped_local;
  SocketAddress mapped_remote;
  SocketAddress remote;
};

/// Both tables. A key is a pair of addresses.
class MappingRecords {
 public:
  /// Most remote infos at once: nobody may ever ask for them, and the daemon is not trusted.
  explicit MappingRecords(std::size_t most_remote_infos) : most_remote_(most_remote_infos) {}

  /// The seed's iwpm_create_mapinfo. The same pair may be there several times: once a user.
  [[nodiscard]] Result<void> create_mapinfo(std::uint8_t client, const SocketAddress& local,
                                            const SocketAddress& mapped, std::uint32_t flags);
  /// The seed's iwpm_remove_mapinfo: one record of the pair. InvalidArgument without one.
  [[nodiscard]] Result<void> remove_mapinfo(const SocketAddress& local,
                                            const SocketAddress& mapped);
  /// The seed's iwpm_mapinfo_available: 1 if any record is there, else 0.
  [[nodiscard]] int mapinfo_available() const { return mappings_.empty() ? 0 : 1; }
  /// Records of a client, in no particular order.
  [[nodiscard]] std::vector<wire::iwpm::Mapinfo> mapinfo_of(std::uint8_t client) const;
  [[nodiscard]] std::size_t mappings() const { return mappings_.size(); }

  /// The seed's iwpm_add_remote_info. False: there are too many, and this one is dropped.
  bool add_remote_info(const RemoteInfo& info);
  /// The seed's iwpm_get_remote_info: what the peer at these mapped addresses is called. The record
  /// is gone then. InvalidArgument without one.
  [[nodiscard]] Result<SocketAddress> get_remote_info(const SocketAddress& mapped_local,
                                                      const SocketAddress& mapped_remote);
  [[nodiscard]] std::size_t remote_infos() const { return remote_infos_.size(); }

  void clear();

 private:
  struct Key {
    SocketAddress first;
    SocketAddress second;
    bool operator==(const Key& other) const {
      return first.is_same(other.first) && second.is_same(other.second);
    }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Mapping {
    std::uint8_t client{};
    std::uint32_t flags{};
  };

  std::size_t most_remote_;
  std::unordered_multimap<Key, Mapping, Hash> mappings_;
  std::unordered_multimap<Key, RemoteInfo, Hash> remote_infos_;
};

}  // namespace weft::iwpm
