#pragma once

// Objects by handle: what contexts of one open device, the opened one and those imported from its
// command descriptor, have in common.

#include <fmt/format.h>
#include <atomic>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "hca/memory_region.h"

namespace weft::compat {

/// Values by the number under which a program knows them, which is never 0. Any thread.
template <class Value>
class HandleTable {
 public:
  /// Beyond `newest`.
  explicit HandleTable(std::uint32_t newest = 0) : first_(newest), newest_(newest) {}

  std::uint32_t add(const Value& value) {
    const std::lock_guard guard{lock_};
    const std::uint32_t handle = ++newest_;
    values_.emplace(handle, value);
    return handle;
  }
  [[nodiscard]] std::optional<Value> find(std::uint32_t handle) const {
    const std::lock_guard guard{lock_};
    const auto found = values_.find(handle);
    return found == values_.end() ? std::nullopt : std::optional{found->second};
  }
  [[nodiscard]] std::optional<std::uint32_t> handle_of(const Value& value) const {
    const std::lock_guard guard{lock_};
    for (const auto& [handle, known] : values_) {
      if (known == value) {
        return handle;
      }
    }
    return std::nullopt;
  }
  void set(std::uint32_t handle, const Value& value) {
    const std::lock_guard guard{lock_};
    values_.insert_or_assign(handle, value);
  }
  /// Whether it was ever the number of a value.
  [[nodiscard]] bool was_given(std::uint32_t handle) const {
    const std::lock_guard guard{lock_};
    return handle > first_ && handle <= newest_;
  }
  /// Nothing when it was removed before, by whoever else had it.
  std::optional<Value> remove(std::uint32_t handle) {
    const std::lock_guard guard{lock_};
    auto node = values_.extract(handle);
    return node.empty() ? std::nullopt : std::optional{std::move(node.mapped())};
  }

 private:
  mutable std::mutex lock_;
  std::map<std::uint32_t, Value> values_;
  const std::uint32_t first_;
  std::uint32_t newest_;
};

/// Why an object's handle does not lead to it.
template <class Value>
[[nodiscard]] std::string why_unknown(std::string_view what, std::uint32_t handle,
                                      const HandleTable<Value>& table) {
  if (table.find(handle)) {
    return fmt::format("handle {} is that of another {}: the program has changed its object",
                       handle, what);
  }
  return table.was_given(handle)
             ? fmt::format(
                   "the {} with handle {} exists no more, ended under this or another name: "
                   "only unimport this one",
                   what, handle)
             : fmt::format(
                   "the device has never had a {} with handle {}: the program has changed "
                   "its object",
                   what, handle);
}

/// Memory handed out as device memory; it lives as long as somebody has a name for it.
class DeviceMemory {
 public:
  /// Null when there is no memory.
  static std::shared_ptr<DeviceMemory> make(std::size_t length, std::size_t alignment);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* start() const { return start_; }
  [[nodiscard]] std::size_t length() const { return length_; }

  std::atomic<std::uint32_t> regions{};

 private:
  DeviceMemory(std::byte* start, std::size_t length, std::size_t alignment)
      : start_(start), length_(length), alignment_(alignment) {}

  std::byte* start_;
  std::size_t length_;
  std::size_t alignment_;
};

class PeerDevice;

struct RegionHandle {
  hca::MemoryRegion* engine{};
  std::shared_ptr<DeviceMemory> device_memory{};  // of a region of such
};

struct Handles {
  /// Of a device that another process has opened: its handles are those below.
  static constexpr std::uint32_t kFirstOwnHandle = 1U << 31;

  explicit Handles(std::uint32_t newest = 0)
      : domains(newest), regions(newest), device_memories(newest) {}
  HandleTable<hca::ProtectionDomain*> domains;
  HandleTable<RegionHandle> regions;
  HandleTable<std::shared_ptr<DeviceMemory>> device_memories;
  std::shared_ptr<PeerDevice> foreign;  // null: it is this process that opened the device
  std::atomic<std::uint64_t> device_memory_used{};  // bytes
};

}  // namespace weft::compat
