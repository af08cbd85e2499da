#include "iwpm/mapped_ports.h"

#include "base/assert.h"

namespace weft::iwpm {
namespace {

[[nodiscard]] bool covers(const SocketAddress& a, const SocketAddress& b) {
  return a.is_same(b) ||
         (a.family == b.family && a.port == b.port && (a.is_wildcard() || b.is_wildcard()));
}

}  // namespace

MappedPort* MappedPorts::find_same(const SocketAddress& local) {
  const auto [begin, end] = by_local_.equal_range(local.port);
  for (auto it = begin; it != end; ++it) {
    if (it->second.local.is_same(local)) {
      return &it->second;
    }
  }
  return nullptr;
}

MappedPort* MappedPorts::find(const SocketAddress& local) {
  if (MappedPort* same = find_same(local); same != nullptr) {
    return same;
  }
  const auto [begin, end] = by_local_.equal_range(local.port);
  for (auto it = begin; it != end; ++it) {
    if (covers(it->second.local, local)) {
      return &it->second;
    }
  }
  return nullptr;
}

const MappedPort* MappedPorts::find_mapped(const SocketAddress& mapped) const {
  const auto [begin, end] = by_mapped_.equal_range(mapped.port);
  for (auto it = begin; it != end; ++it) {
    if (covers(it->second->mapped, mapped)) {
      return it->second;
    }
  }
  return nullptr;
}

MappedPort& MappedPorts::add(const MappedPort& port) {
  WEFT_ASSERT(find_same(port.local) == nullptr, "a local address is mapped once");
  MappedPort& added = by_local_.emplace(port.local.port, port)->second;
  by_mapped_.emplace(added.mapped.port, &added);
  return added;
}

void MappedPorts::remove(const MappedPort& port) {
  const auto [begin, end] = by_mapped_.equal_range(port.mapped.port);
  for (auto it = begin; it != end; ++it) {
    if (it->second == &port) {
      by_mapped_.erase(it);
      break;
    }
  }
  const auto [first, last] = by_local_.equal_range(port.local.port);
  for (auto it = first; it != last; ++it) {
    if (&it->second == &port) {
      by_local_.erase(it);
      return;
    }
  }
}

std::vector<MappedPort> MappedPorts::all() const {
  std::vector<MappedPort> ports;
  for (const auto& [number, port] : by_local_) {
    ports.push_back(port);
  }
  return ports;
}

void MappedPorts::check_invariants() const {
  WEFT_ASSERT(by_local_.size() == by_mapped_.size(), "each mapping is found by both addresses");
  for (const auto& [number, port] : by_local_) {
    WEFT_ASSERT(number == port.local.port, "mappings are found by their local ports");
    WEFT_ASSERT(port.references != 0, "a mapping without a user is removed");
    WEFT_ASSERT(port.local.family == port.mapped.family, "a mapping keeps the family");
  }
}

}  // namespace weft::iwpm
