#include "core/port_cache.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "core/device.h"

namespace weft::core {

/// Everything under the cache's lock.
struct PortCache::Tables {
  struct Slot {
    GidEntry* entry{};  // until its last reference goes
    bool is_valid{};    // it is in the table
  };
  std::vector<Slot> gids;
  std::vector<PKey> pkeys;
  PortDescription port;
  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  std::uint64_t generation{};
  std::uint32_t lingering{};  // entries that left the table and are still referred to
};

GidEntry::GidEntry(PortCache& cache, const Gid& gid, std::uint32_t index, GidType type,
                   NetDeviceReference net_device)
    : cache_(cache), gid_(gid), index_(index), type_(type), net_device_(std::move(net_device)) {}

PortNumber GidEntry::port() const { return cache_.port(); }

Device& GidEntry::device() const { return cache_.device(); }

void GidEntry::put() const {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    cache_.release(*this);
  }
}

PortCache::PortCache(Device& device, PortNumber port, LockPolicy policy)
    : device_(device),
      port_(port),
      gid_table_length_(device.immutable(port).gid_table_length),
      pkey_table_length_(device.immutable(port).pkey_table_length),
      lock_(policy),
      tables_(std::make_unique<Tables>()) {
  tables_->gids.resize(gid_table_length_);
  tables_->pkeys.resize(pkey_table_length_);
}

PortCache::~PortCache() {
  clear();
  WEFT_ASSERT(tables_->lingering == 0, "whoever holds a source GID gives it up before the device");
}

void PortCache::clear() {
  for (std::uint32_t index = 0; index < gid_table_length_; ++index) {
    leave_table(index);
  }
}

Result<void> PortCache::refresh() {
  const DeviceOperations& operations = device_.operations();
  const auto port = operations.query_port(device_, port_);
  if (!port) {
    return std::unexpected(port.error());
  }
  std::vector<PKey> pkeys(pkey_table_length_);
  for (std::uint32_t i = 0; i < pkey_table_length_ && operations.query_pkey != nullptr; ++i) {
    const auto pkey = operations.query_pkey(device_, port_, i);
    if (!pkey) {
      return std::unexpected(pkey.error());
    }
    pkeys[i] = *pkey;
  }
  const bool is_ib = device_.port_can(port_, PortCapability::ProtocolIb);
  std::vector<Gid> gids(is_ib && operations.query_gid != nullptr ? gid_table_length_ : 0);
  for (std::uint32_t i = 0; i < gids.size(); ++i) {
    const auto gid = operations.query_gid(device_, port_, i);
    if (!gid) {
      return std::unexpected(gid.error());
    }
    gids[i] = *gid;
  }
  refresh_gids(gids);
  const std::lock_guard lock{lock_};
  tables_->port = *port;
  tables_->pkeys = std::move(pkeys);
  if (!gids.empty()) {
    tables_->subnet_prefix = gids.front().prefix();
  }
  ++tables_->generation;
  return {};
}

void PortCache::refresh_gids(std::span<const Gid> gids) {
  for (std::uint32_t index = 0; index < gids.size(); ++index) {
    {
      const std::lock_guard lock{lock_};
      const Tables::Slot& slot = tables_->gids[index];
      if (slot.is_valid && slot.entry->gid() == gids[index]) {
        continue;
      }
    }
    leave_table(index);
    if (gids[index].is_zero()) {
      continue;
    }
    auto entry = std::make_unique<GidEntry>(*this, gids[index], index, GidType::Infiniband,
                                            NetDeviceReference{});
    const std::lock_guard lock{lock_};
    tables_->gids[index] = {.entry = entry.release(), .is_valid = true};
  }
}

void PortCache::leave_table(std::uint32_t index) {
  GidEntry* entry = nullptr;
  {
    const std::lock_guard lock{lock_};
    Tables::Slot& slot = tables_->gids[index];
    if (!slot.is_valid) {
      return;
    }
    slot.is_valid = false;
    entry = slot.entry;
    ++tables_->lingering;
  }
  entry->put();  // the table's own reference
}

void PortCache::release(const GidEntry& entry) {
  const DeviceOperations& operations = device_.operations();
  if (entry.type() != GidType::Infiniband && operations.remove_gid != nullptr) {
    operations.remove_gid(entry);
  }
  const std::unique_ptr<const GidEntry> owned{&entry};
  const std::lock_guard lock{lock_};
  Tables::Slot& slot = tables_->gids[entry.index()];
  if (slot.entry == &entry) {
    slot.entry = nullptr;
  }
  --tables_->lingering;
}

Result<GidReference> PortCache::gid_at(std::uint32_t index) const {
  if (index >= gid_table_length_) {
    return fail(ErrorCode::InvalidArgument, "GID index {} is not below {}", index,
                gid_table_length_);
  }
  const std::lock_guard lock{lock_};
  const Tables::Slot& slot = tables_->gids[index];
  if (!slot.is_valid) {
    return fail(ErrorCode::NotFound, "entry {} of the GID table of port {} is empty", index,
                port_.value());
  }
  slot.entry->references_.fetch_add(1, std::memory_order_relaxed);
  return GidReference::adopt(slot.entry);
}

Result<GidReference> PortCache::find_gid(const Gid& gid, std::optional<GidType> type,
                                         const NetDevice* net_device) const {
  const std::lock_guard lock{lock_};
  for (const Tables::Slot& slot : tables_->gids) {
    if (slot.is_valid && slot.entry->gid() == gid && (!type || slot.entry->type() == *type) &&
        (net_device == nullptr || slot.entry->net_device() == net_device)) {
      slot.entry->references_.fetch_add(1, std::memory_order_relaxed);
      return GidReference::adopt(slot.entry);
    }
  }
  return fail(ErrorCode::NotFound, "port {} has no such GID", port_.value());
}

Result<std::uint32_t> PortCache::add_gid(const Gid& gid, GidType type,
                                         NetDeviceReference net_device) {
  if (gid.is_zero()) {
    return fail(ErrorCode::InvalidArgument, "the zero GID is no port's");
  }
  if (find_gid(gid, type, net_device.get())) {
    return fail(ErrorCode::Exists, "port {} has this GID of this net device already",
                port_.value());
  }
  GidEntry* made = nullptr;
  {
    const std::lock_guard lock{lock_};
    const auto free = std::ranges::find(tables_->gids, nullptr, &Tables::Slot::entry);
    if (free == tables_->gids.end()) {
      return fail(ErrorCode::OutOfMemory, "all {} GIDs of port {} are taken", gid_table_length_,
                  port_.value());
    }
    const auto index = static_cast<std::uint32_t>(free - tables_->gids.begin());
    made = std::make_unique<GidEntry>(*this, gid, index, type, std::move(net_device)).release();
    free->entry = made;  // not valid before the driver has it
  }
  if (device_.operations().add_gid != nullptr) {
    if (const auto added = device_.operations().add_gid(*made); !added) {
      const std::unique_ptr<GidEntry> owned{made};
      const std::lock_guard lock{lock_};
      tables_->gids[made->index()].entry = nullptr;
      return std::unexpected(added.error());
    }
  }
  const std::lock_guard lock{lock_};
  tables_->gids[made->index()].is_valid = true;
  ++tables_->generation;
  return made->index();
}

Result<void> PortCache::remove_gid(const Gid& gid, GidType type, const NetDevice* net_device) {
  const auto found = find_gid(gid, type, net_device);
  if (!found) {
    return std::unexpected(found.error());
  }
  leave_table((*found)->index());
  const std::lock_guard lock{lock_};
  ++tables_->generation;
  return {};
}

Result<PKey> PortCache::pkey_at(std::uint32_t index) const {
  if (index >= pkey_table_length_) {
    return fail(ErrorCode::InvalidArgument, "P_Key index {} is not below {}", index,
                pkey_table_length_);
  }
  const std::lock_guard lock{lock_};
  return tables_->pkeys[index];
}

Result<std::uint16_t> PortCache::find_pkey(PKey pkey) const {
  const std::lock_guard lock{lock_};
  std::optional<std::uint16_t> limited;
  for (std::size_t i = 0; i < tables_->pkeys.size(); ++i) {
    const PKey entry = tables_->pkeys[i];
    if (!entry.is_valid() || entry.base() != pkey.base()) {
      continue;
    }
    if (entry.is_full_member()) {
      return static_cast<std::uint16_t>(i);
    }
    if (!limited) {
      limited = static_cast<std::uint16_t>(i);
    }
  }
  if (!limited) {
    return fail(ErrorCode::NotFound, "port {} is in no partition {:#06x}", port_.value(),
                pkey.base());
  }
  return *limited;
}

Result<std::uint16_t> PortCache::find_exact_pkey(PKey pkey) const {
  const std::lock_guard lock{lock_};
  const auto found = std::ranges::find(tables_->pkeys, pkey);
  if (found == tables_->pkeys.end()) {
    return fail(ErrorCode::NotFound, "port {} has no P_Key {:#06x}", port_.value(), pkey.value());
  }
  return static_cast<std::uint16_t>(found - tables_->pkeys.begin());
}

std::uint8_t PortCache::lmc() const {
  const std::lock_guard lock{lock_};
  return tables_->port.lmc;
}

Lid PortCache::lid() const {
  const std::lock_guard lock{lock_};
  return tables_->port.lid;
}

Lid PortCache::sm_lid() const {
  const std::lock_guard lock{lock_};
  return tables_->port.sm_lid;
}

verbs::PortState PortCache::state() const {
  const std::lock_guard lock{lock_};
  return tables_->port.state;
}

std::uint64_t PortCache::subnet_prefix() const {
  const std::lock_guard lock{lock_};
  return tables_->subnet_prefix;
}

std::uint64_t PortCache::generation() const {
  const std::lock_guard lock{lock_};
  return tables_->generation;
}

}  // namespace weft::core
