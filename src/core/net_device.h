#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/assert.h"

namespace weft::core {

/// A network namespace, in the place of the kernel's `struct net`: an identity, and nothing else.
struct NetNamespace {
  std::string name;
};

/// A network interface as far as RDMA devices need one (the kernel's `struct net_device`). It
/// belongs to whoever registered it, who waits for the references to go before he destroys it. Any
/// thread.
class NetDevice {
 public:
  using MacAddress = std::array<std::byte, 6>;

  explicit NetDevice(std::string name, const NetNamespace* net = nullptr, MacAddress mac = {})
      : name_(std::move(name)), net_(net), mac_(mac) {}
  ~NetDevice() {
    WEFT_ASSERT(references() == 0, "whoever holds a net device has put it before it goes");
  }
  NetDevice(const NetDevice&) = delete;
  NetDevice& operator=(const NetDevice&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Null: the initial namespace.
  [[nodiscard]] const NetNamespace* net() const { return net_; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }

  [[nodiscard]] std::uint32_t references() const {
    return references_.load(std::memory_order_acquire);
  }

 private:
  friend class NetDeviceReference;
  std::string name_;
  const NetNamespace* net_;
  MacAddress mac_;
  std::atomic<std::uint32_t> references_{};
};

/// Holds a net device (dev_hold, dev_put); empty: none.
class NetDeviceReference {
 public:
  NetDeviceReference() = default;
  explicit NetDeviceReference(NetDevice* held) : held_(held) { take(); }
  NetDeviceReference(const NetDeviceReference& other) : held_(other.held_) { take(); }
  NetDeviceReference(NetDeviceReference&& other) noexcept
      : held_(std::exchange(other.held_, nullptr)) {}
  NetDeviceReference& operator=(NetDeviceReference other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~NetDeviceReference() {
    if (held_ != nullptr) {
      held_->references_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  [[nodiscard]] NetDevice* get() const { return held_; }
  NetDevice* operator->() const { return held_; }
  explicit operator bool() const { return held_ != nullptr; }
  /// Hands the reference to the caller, who puts it by adopting it again.
  [[nodiscard]] NetDevice* release() { return std::exchange(held_, nullptr); }
  [[nodiscard]] static NetDeviceReference adopt(NetDevice* held) {
    NetDeviceReference reference;
    reference.held_ = held;
    return reference;
  }

 private:
  void take() {
    if (held_ != nullptr) {
      held_->references_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  NetDevice* held_{};
};

}  // namespace weft::core
