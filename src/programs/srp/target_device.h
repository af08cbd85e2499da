#pragma once

// One RDMA device that SRP targets serve, from its coming to its end (srpt_add_one,
// srpt_remove_one; R-SRPT-2): channels, device management, events. A host may have several.

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/device.h"
#include "core/events.h"
#include "core/work.h"
#include "programs/srp/device_management.h"
#include "programs/srp/start_order.h"
#include "programs/srp/target_events.h"
#include "programs/srp/target_link.h"
#include "programs/srp/target_node.h"
#include "ulp/iser/shared_receives.h"

namespace weft::programs::srp {

/// Somebody asks for a connection.
struct LoginArrival {
  std::unique_ptr<core::RdmaCmId> id;
  verbs::ConnectionParameters offered;
};

class TargetDevice;

/// Whose targets the device serves. Called in the loop's thread.
class TargetDeviceClient {
 public:
  /// From now on targets take logins by the names that they have at the device.
  [[nodiscard]] virtual Result<void> name_targets(Guid ioc_guid) = 0;
  /// They take none there any more, and sessions end; each that has is followed by collect().
  virtual void end_sessions(Guid ioc_guid) = 0;
  /// At the portals, if nobody listens there yet: logins may come.
  [[nodiscard]] virtual Result<void> listen() = 0;
  /// By which they may come, for device management.
  [[nodiscard]] virtual std::uint64_t service_id() const = 0;
  /// That which the login names; null: there is none at all.
  [[nodiscard]] virtual TargetNode* node_of(Guid ioc_guid,
                                            const weft::srp::LoginRequest& request) = 0;
  /// Port identifiers, for device management.
  [[nodiscard]] virtual std::vector<wire::SrpPortId> targets(Guid ioc_guid) const = 0;
  /// Channels that are released may be freed: none is on the stack.
  virtual void collect() = 0;
  /// After that: targets that were removed, too, if no device's links refer to them.
  virtual void free_targets() = 0;
  /// The device was pulled out.
  virtual void handle_gone(TargetDevice& device) = 0;
  /// After leave(): nothing is under way any more. The device may be freed, but not from inside.
  virtual void handle_quiet(TargetDevice& device) = 0;

 protected:
  ~TargetDeviceClient() = default;
};

/// The loop's thread, but for the driver's own threads.
class TargetDevice final {
 public:
  /// Names the targets, and listens. The device outlives it. `uses_srq`: all channels share receive
  /// buffers, if the device can.
  [[nodiscard]] static Result<std::unique_ptr<TargetDevice>> open(asio::io_context& loop,
                                                                  core::Device& device,
                                                                  bool uses_srq,
                                                                  TargetDeviceClient& client);
  ~TargetDevice() { end(); }
  TargetDevice(const TargetDevice&) = delete;
  TargetDevice& operator=(const TargetDevice&) = delete;

  /// A login that came by this device.
  void accept(LoginArrival arrival);
  /// No logins any more, and all sessions end; handle_quiet() follows.
  void leave();
  [[nodiscard]] bool is_leaving() const { return is_leaving_; }
  /// Sessions that there still are end, and whatever it began; for the client, which may be called.
  void end() { sequence_.end(); }
  /// What device management tells has changed.
  void tell_management();
  /// TargetDeviceClient::collect() follows.
  void collect_later() { collect_work_->queue(); }

  [[nodiscard]] core::Device& device() const { return device_; }
  [[nodiscard]] std::string name() const { return std::string{device_.name()}; }
  [[nodiscard]] Guid ioc_guid() const { return ioc_guid_; }
  /// Whether a connection was one of this target's, and may not be free of it yet.
  [[nodiscard]] bool refers_to(const weft::srp::Target& target) const;
  /// Nothing: channels have receives of their own.
  [[nodiscard]] std::optional<weft::iser::SharedReceiveCounters> shared_receives() const;

 private:
  /// From its making to its end (R-SRPT-3).
  class DeviceEvents final : public core::EventHandler {
   public:
    explicit DeviceEvents(TargetDevice& device) : EventHandler(device.device_), device_(device) {
      core::register_event_handler(*this);
    }
    ~DeviceEvents() override { core::unregister_event_handler(*this); }
    void handle(const core::Event& event) override { device_.handle_device_event(event); }

   private:
    TargetDevice& device_;
  };

  TargetDevice(asio::io_context& loop, core::Device& device, bool uses_srq,
               TargetDeviceClient& client);
  Result<void> begin(StartStep step);
  void end(StartStep step);
  Result<void> begin_device();
  void share_receives();
  void manage_ports();
  void end_sessions();
  void collect();
  void handle_device_event(const core::Event& event);
  void warn(const std::string& text);

  asio::io_context& loop_;
  core::Device& device_;
  core::Environment& environment_;
  const bool uses_srq_;
  TargetDeviceClient& client_;
  const Guid ioc_guid_;
  core::Pd* pd_{};
  std::unique_ptr<weft::iser::SharedReceives> shared_;  // null: none
  std::vector<std::shared_ptr<TargetLink>> connections_;
  bool takes_logins_{};
  std::unique_ptr<core::Work> collect_work_;
  std::unique_ptr<DeviceManagement> management_;  // null: not yet, or not any more
  std::unique_ptr<DeviceEvents> device_events_;
  bool is_leaving_{};
  bool quiet_is_told_{};
  StartSequence sequence_{kDeviceOrder, [this](StartStep step) { end(step); }};
};

}  // namespace weft::programs::srp
