#pragma once

// Object handles: shared by all contexts of one open device, both the one from ibv_open_device()
// and those imported from its command descriptor.

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

/// Values by the handle under which a program knows them, which is never 0. Any thread; it has its
/// own lock.
template <class Value>
class HandleTable {
 public:
  /// Assigns handles above `newest`.
  explicit HandleTable(std::uint32_t newest = 0) : first_(newest), newest_(newest) {}

  /// Assigns a new handle to `value`.
  std::uint32_t add(const Value& value) {
    const std::lock_guard guard{lock_};
    const std::uint32_t handle = ++newest_;
    values_.emplace(handle, value);
    return handle;
  }
  /// The value of a handle; nullopt if it has none (any more).
  [[nodiscard]] std::optional<Value> find(std::uint32_t handle) const {
    const std::lock_guard guard{lock_};
    const auto found = values_.find(handle);
    return found == values_.end() ? std::nullopt : std::optional{found->second};
  }
  /// A handle of that value.
  [[nodiscard]] std::optional<std::uint32_t> handle_of(const Value& value) const {
    const std::lock_guard guard{lock_};
    for (const auto& [handle, known] : values_) {
      if (known == value) {
        return handle;
      }
    }
    return std::nullopt;
  }
  /// Assigns `value` to a given handle.
  void set(std::uint32_t handle, const Value& value) {
    const std::lock_guard guard{lock_};
    values_.insert_or_assign(handle, value);
  }
  /// True if `handle` was ever assigned.
  [[nodiscard]] bool was_given(std::uint32_t handle) const {
    const std::lock_guard guard{lock_};
    return handle > first_ && handle <= newest_;
  }
  /// Nullopt if another thread has removed it before.
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

/// The reason why an object's handle does not lead to the object.
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

/// A piece of device memory; it exists as long as a handle refers to it.
class DeviceMemory {
 public:
  /// Null if out of memory.
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

/// A memory region and the device memory behind it.
struct RegionHandle {
  hca::MemoryRegion* engine{};
  std::shared_ptr<DeviceMemory> device_memory{};  // null for ordinary memory
};

/// The handles of one open device.
struct Handles {
  /// Handles of an imported device: the owner's are below this value.
  static constexpr std::uint32_t kFirstOwnHandle = 1U << 31;

  explicit Handles(std::uint32_t newest = 0)
      : domains(newest), regions(newest), device_memories(newest) {}
  HandleTable<hca::ProtectionDomain*> domains;
  HandleTable<RegionHandle> regions;
  HandleTable<std::shared_ptr<DeviceMemory>> device_memories;
  std::shared_ptr<PeerDevice> foreign;              // null if this process opened the device
  std::atomic<std::uint64_t> device_memory_used{};  // bytes
};

}  // namespace weft::compat
