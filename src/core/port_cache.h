#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/lock.h"
#include "base/result.h"
#include "core/net_device.h"
#include "verbs/port_state.h"

namespace weft::core {

class Device;
class PortCache;

/// How packets with a source GID look (`enum ib_gid_type`).
enum class GidType : std::uint8_t { Infiniband, RoceV1, RoceV2 };

/// One entry of a port's GID table. Immutable; it lives until it has left the table and nobody
/// refers to it any more, and until then its index is not given to another GID.
class GidEntry {
 public:
  GidEntry(PortCache& cache, const Gid& gid, std::uint32_t index, GidType type,
           NetDeviceReference net_device);

  [[nodiscard]] const Gid& gid() const { return gid_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] PortNumber port() const;
  [[nodiscard]] Device& device() const;
  [[nodiscard]] GidType type() const { return type_; }
  /// RoCE: the interface that the GID is of; else null.
  [[nodiscard]] NetDevice* net_device() const { return net_device_.get(); }
  /// For tests and dumps: the table's own reference included.
  [[nodiscard]] std::uint32_t references() const {
    return references_.load(std::memory_order_acquire);
  }

 private:
  friend class GidReference;
  friend class PortCache;
  void put() const;

  PortCache& cache_;
  const Gid gid_;
  const std::uint32_t index_;
  const GidType type_;
  NetDeviceReference net_device_;
  mutable std::atomic<std::uint32_t> references_{1};
};

/// Holds an entry of a GID table (rdma_hold_gid_attr, rdma_put_gid_attr); empty: none.
class GidReference {
 public:
  GidReference() = default;
  GidReference(const GidReference& other) : held_(other.held_) {
    if (held_ != nullptr) {
      held_->references_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  GidReference(GidReference&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  GidReference& operator=(GidReference other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~GidReference() { reset(); }

  void reset() {
    if (const GidEntry* held = std::exchange(held_, nullptr); held != nullptr) {
      held->put();
    }
  }
  [[nodiscard]] const GidEntry* get() const { return held_; }
  const GidEntry* operator->() const { return held_; }
  explicit operator bool() const { return held_ != nullptr; }

  /// For interfaces that hold plain pointers: the reference becomes the caller's, and adopt() takes
  /// it back.
  [[nodiscard]] const GidEntry* release() { return std::exchange(held_, nullptr); }
  [[nodiscard]] static GidReference adopt(const GidEntry* held) {
    GidReference reference;
    reference.held_ = held;
    return reference;
  }

 private:
  const GidEntry* held_{};
};

/// What the core remembers of a port, so that look-ups ask no driver: GID and P_Key table, LMC,
/// state and subnet prefix. Read when the device is registered, and anew at each event that may
/// change it, before handlers are told. Any thread; readers see one state or the next.
class PortCache {
 public:
  PortCache(Device& device, PortNumber port, LockPolicy policy);
  ~PortCache();

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] PortNumber port() const { return port_; }

  /// Asks the driver for all of it. On failure the cache stays as it was. RoCE ports keep the GIDs
  /// that were added, whatever the driver says.
  Result<void> refresh();

  /// Empties the GID table: the device goes.
  void clear();

  // --- GIDs
  [[nodiscard]] std::uint32_t gid_table_length() const { return gid_table_length_; }
  /// NotFound: the entry is empty.
  [[nodiscard]] Result<GidReference> gid_at(std::uint32_t index) const;
  [[nodiscard]] Result<GidReference> find_gid(const Gid& gid,
                                              std::optional<GidType> type = std::nullopt,
                                              const NetDevice* net_device = nullptr) const;
  /// RoCE: an address of a net device came or went. The first free index; Exists where it is there
  /// already. An entry that is still referred to keeps its index until the last reference goes.
  Result<std::uint32_t> add_gid(const Gid& gid, GidType type, NetDeviceReference net_device);
  Result<void> remove_gid(const Gid& gid, GidType type, const NetDevice* net_device);

  // --- P_Keys
  [[nodiscard]] std::uint32_t pkey_table_length() const { return pkey_table_length_; }
  [[nodiscard]] Result<PKey> pkey_at(std::uint32_t index) const;
  /// By the low 15 bits; a full member's entry wins over a limited one (R-PORT-4).
  [[nodiscard]] Result<std::uint16_t> find_pkey(PKey pkey) const;
  /// By all 16 bits.
  [[nodiscard]] Result<std::uint16_t> find_exact_pkey(PKey pkey) const;

  [[nodiscard]] std::uint8_t lmc() const;
  [[nodiscard]] Lid lid() const;
  [[nodiscard]] Lid sm_lid() const;
  [[nodiscard]] verbs::PortState state() const;
  [[nodiscard]] std::uint64_t subnet_prefix() const;
  /// Grows with every refresh that changed something.
  [[nodiscard]] std::uint64_t generation() const;

 private:
  friend class GidEntry;
  struct Tables;
  void release(const GidEntry& entry);
  void leave_table(std::uint32_t index);
  void refresh_gids(std::span<const Gid> gids);

  Device& device_;
  const PortNumber port_;
  std::uint32_t gid_table_length_{};
  std::uint32_t pkey_table_length_{};
  mutable PolicyLock lock_;
  std::unique_ptr<Tables> tables_;
};

// The kernel's look-ups over all ports of a device. InvalidArgument: no such port or index;
// NotFound: nothing there.

[[nodiscard]] Result<GidReference> get_gid(Device& device, PortNumber port, std::uint32_t index);
[[nodiscard]] Result<Gid> query_gid(Device& device, PortNumber port, std::uint32_t index);
/// Ports whose link layer is InfiniBand only, and asks the driver (`ib_find_gid`).
struct GidPlace {
  PortNumber port{};
  std::uint16_t index{};
};
[[nodiscard]] Result<GidPlace> find_gid(Device& device, const Gid& gid);
/// All ports, by the cache (`rdma_find_gid`).
[[nodiscard]] Result<GidReference> find_cached_gid(Device& device, const Gid& gid,
                                                   std::optional<GidType> type = std::nullopt,
                                                   const NetDevice* net_device = nullptr);
/// Of one port, by the cache (`rdma_find_gid_by_port`).
[[nodiscard]] Result<GidReference> find_cached_gid(Device& device, PortNumber port, const Gid& gid,
                                                   std::optional<GidType> type = std::nullopt,
                                                   const NetDevice* net_device = nullptr);

[[nodiscard]] Result<PKey> query_pkey(Device& device, PortNumber port, std::uint32_t index);
[[nodiscard]] Result<std::uint16_t> find_pkey(Device& device, PortNumber port, PKey pkey);
[[nodiscard]] Result<PKey> get_cached_pkey(Device& device, PortNumber port, std::uint32_t index);
[[nodiscard]] Result<std::uint16_t> find_cached_pkey(Device& device, PortNumber port, PKey pkey);
[[nodiscard]] Result<std::uint16_t> find_exact_cached_pkey(Device& device, PortNumber port,
                                                           PKey pkey);
[[nodiscard]] Result<std::uint8_t> get_cached_lmc(Device& device, PortNumber port);
[[nodiscard]] Result<verbs::PortState> get_cached_port_state(Device& device, PortNumber port);
[[nodiscard]] Result<std::uint64_t> get_cached_subnet_prefix(Device& device, PortNumber port);

}  // namespace weft::core
