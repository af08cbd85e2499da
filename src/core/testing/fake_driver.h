#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/registry.h"

namespace weft::core::testing {

/// A driver without hardware: ports whose tables a test writes, CQs into which it puts completions,
/// and other objects that do nothing. One for each device; it outlives that.
class FakeDriver {
 public:
  static constexpr std::uint32_t kDriverId = 77;

  /// A device that is not registered yet; `change` may take operations away.
  explicit FakeDriver(Registry& registry, PortCapabilities ports = kInfinibandPort,
                      void (*change)(DeviceInit&) = nullptr);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] Result<void> register_as(std::string_view name) {
    return registry_.register_device(*device_, name);
  }

  const PortCapabilities port_capabilities;  ///< of every port, as what follows
  PortDescription port;
  std::vector<Gid> gids;
  std::vector<PKey> pkeys{kDefaultPKey};
  std::vector<Gid> removed_gids;  ///< that remove_gid was called for
  DeviceAttributes attributes;
  std::atomic<unsigned> freed{};  ///< calls of deallocate_driver, for drivers that have it

  /// What the fake makes of a CQ.
  struct FakeCq {
    std::deque<std::uint64_t> wr_ids;
    bool is_armed{};
    unsigned polls{};
  };
  [[nodiscard]] FakeCq& fake(Cq& cq) { return cqs_[&cq]; }
  /// A completion; tells the core if the CQ is armed.
  void complete(Cq& cq, const CompletionHandler* handler);

  /// The device is freed by the core, as drivers with deallocate_driver have it.
  static void with_deallocation(DeviceInit& init);

 private:
  friend struct FakeOperations;
  Registry& registry_;
  Device* device_{};
  std::map<Cq*, FakeCq> cqs_;
};

[[nodiscard]] FakeDriver& driver_of(Device& device);

/// Writes down what a client is told: "A+weft0" and "A-weft0".
class RecordingClient final : public Client {
 public:
  RecordingClient(std::string name, std::vector<std::string>& log, bool needs_kernel_verbs = false)
      : Client(std::move(name), needs_kernel_verbs), log_(log) {}
  Result<void> add(Device& device) override {
    log_.push_back(name() + "+" + device.name());
    if (refuses) {
      return fail(ErrorCode::OutOfMemory, "the test wants it so");
    }
    return {};
  }
  void remove(Device& device, void* data) override {
    log_.push_back(name() + "-" + device.name());
    removed_with = data;
  }
  void rename(Device& device, void* /*data*/) override {
    log_.push_back(name() + "=" + device.name());
  }
  NetDeviceReference net_device_of(Device& /*device*/, const NetDeviceParameters& parameters,
                                   void* /*data*/) override {
    return parameters.pkey == knows_pkey ? NetDeviceReference{net_device} : NetDeviceReference{};
  }

  bool refuses{};
  void* removed_with{};
  PKey knows_pkey{};
  NetDevice* net_device{};

 private:
  std::vector<std::string>& log_;
};

}  // namespace weft::core::testing
