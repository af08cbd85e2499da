#include "iwpm/mapping_records.h"

#include <fmt/format.h>

#include "base/random.h"

namespace weft::iwpm {
namespace {

/// Mixes an address into a hash; the scope is no part of the identity.
[[nodiscard]] std::uint64_t mix(std::uint64_t hash, const SocketAddress& address) {
  hash = Random{hash ^ (std::uint64_t{address.family} << 16 | address.port)}();
  std::uint64_t word = 0;
  unsigned octets = 0;
  for (const std::byte octet : address.ip.octets()) {
    word = word << 8 | std::to_integer<std::uint64_t>(octet);
    if (++octets % 8 == 0) {
      hash = Random{hash ^ word}();
      word = 0;
    }
  }
  return octets % 8 == 0 ? hash : Random{hash ^ word}();
}

}  // namespace

int compare_sockaddr(const SocketAddress& a, const SocketAddress& b) {
  return a.is_same(b) ? 0 : 1;
}

std::string print_sockaddr(const SocketAddress& address, std::string_view message) {
  return fmt::format("{} {}", message, wire::iwpm::to_string(address));
}

std::size_t MappingRecords::Hash::operator()(const Key& key) const {
  return static_cast<std::size_t>(mix(mix(0, key.first), key.second));
}

Result<void> MappingRecords::create_mapinfo(std::uint8_t client, const SocketAddress& local,
                                            const SocketAddress& mapped, std::uint32_t flags) {
  if (!local.is_ip() || !mapped.is_ip()) {
    return fail(ErrorCode::InvalidArgument, "only IP addresses are mapped");
  }
  mappings_.emplace(Key{local, mapped}, Mapping{.client = client, .flags = flags});
  return {};
}

Result<void> MappingRecords::remove_mapinfo(const SocketAddress& local,
                                            const SocketAddress& mapped) {
  const auto found = mappings_.find(Key{local, mapped});
  if (found == mappings_.end()) {
    return fail(ErrorCode::InvalidArgument, "{} is not on record as mapped to {}",
                wire::iwpm::to_string(local), wire::iwpm::to_string(mapped));
  }
  mappings_.erase(found);
  return {};
}

std::vector<wire::iwpm::Mapinfo> MappingRecords::mapinfo_of(std::uint8_t client) const {
  std::vector<wire::iwpm::Mapinfo> records;
  for (const auto& [key, mapping] : mappings_) {
    if (mapping.client == client) {
      records.push_back({.local = key.first, .mapped = key.second, .flags = mapping.flags});
    }
  }
  return records;
}

bool MappingRecords::add_remote_info(const RemoteInfo& info) {
  if (remote_infos_.size() >= most_remote_) {
    return false;
  }
  remote_infos_.emplace(Key{info.mapped_local, info.mapped_remote}, info);
  return true;
}

Result<SocketAddress> MappingRecords::get_remote_info(const SocketAddress& mapped_local,
                                                      const SocketAddress& mapped_remote) {
  const auto found = remote_infos_.find(Key{mapped_local, mapped_remote});
  if (found == remote_infos_.end()) {
    return fail(ErrorCode::InvalidArgument, "nothing is known of a peer at {} that connects to {}",
                wire::iwpm::to_string(mapped_remote), wire::iwpm::to_string(mapped_local));
  }
  const SocketAddress remote = found->second.remote;
  remote_infos_.erase(found);
  return remote;
}

void MappingRecords::clear() {
  mappings_.clear();
  remote_infos_.clear();
}

}  // namespace weft::iwpm
