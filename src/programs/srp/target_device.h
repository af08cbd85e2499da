#pragma once

// One RDMA device that SRP targets serve, from its coming to its end (srpt_add_one,
// srpt_remove_one; R-SRPT-2): ports that listen by RDMA-CM, channels, device management, events.

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/events.h"
#include "core/work.h"
#include "programs/rdma/host.h"
#include "programs/srp/device_management.h"
#include "programs/srp/start_order.h"
#include "programs/srp/target_events.h"
#include "programs/srp/target_link.h"
#include "programs/srp/target_node.h"
#include "ulp/iser/shared_receives.h"

namespace weft::programs::srp {

struct TargetDeviceOptions {
  std::string name{};                  ///< as libibverbs has it; empty: the first
  bool uses_srq{true};                 ///< all channels share receive buffers, if the device can
  std::vector<std::string> portals{};  ///< HOST:PORT to listen on
};

/// Whose targets the device serves. Called in the loop's thread.
class TargetDeviceClient {
 public:
  /// From now on targets take logins by the names that they have at the device.
  [[nodiscard]] virtual Result<void> name_targets(Guid ioc_guid) = 0;
  /// They take none any more, and sessions end; each that has is followed by collect().
  virtual void end_sessions() = 0;
  /// That which the login names; null: there is none at all.
  [[nodiscard]] virtual TargetNode* node_of(const weft::srp::LoginRequest& request) = 0;
  /// Port identifiers, for device management.
  [[nodiscard]] virtual std::vector<wire::SrpPortId> targets() const = 0;
  /// Channels that are released may be freed: none is on the stack.
  virtual void collect() = 0;
  /// After that, when no link refers to them: targets that were removed, too.
  virtual void free_targets() = 0;
  /// The device was pulled out.
  virtual void handle_gone() = 0;
  /// After leave(): nothing is under way any more. The device may be freed, but not from inside.
  virtual void handle_quiet() = 0;

 protected:
  ~TargetDeviceClient() = default;
};

/// The loop's thread, but for the driver's own threads.
class TargetDevice final : private core::RdmaCmHandler {
 public:
  /// Opens it, names the targets, and listens. NoSuchDevice: there is none.
  [[nodiscard]] static Result<std::unique_ptr<TargetDevice>> open(asio::io_context& loop,
                                                                  TargetDeviceOptions options,
                                                                  TargetDeviceClient& client);
  /// Sessions that there still are end first.
  ~TargetDevice();
  TargetDevice(const TargetDevice&) = delete;
  TargetDevice& operator=(const TargetDevice&) = delete;

  /// No logins any more, and all sessions end; handle_quiet() follows.
  void leave();
  /// What device management tells has changed.
  void tell_management();
  /// TargetDeviceClient::collect() follows.
  void collect_later() { collect_work_->queue(); }

  [[nodiscard]] std::string name() const { return std::string{host_->device().name()}; }
  [[nodiscard]] Guid ioc_guid() const { return ioc_guid_; }
  /// As they were configured, with the ports that they have.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  /// That device management tells.
  [[nodiscard]] std::uint64_t service_id() const { return service_id_; }
  /// Nothing: channels have receives of their own.
  [[nodiscard]] std::optional<weft::iser::SharedReceiveCounters> shared_receives() const;

 private:
  struct Request {
    std::unique_ptr<core::RdmaCmId> id;
    verbs::ConnectionParameters offered;
  };

  /// From its making to its end (R-SRPT-3).
  class DeviceEvents final : public core::EventHandler {
   public:
    explicit DeviceEvents(TargetDevice& device)
        : EventHandler(device.host_->device()), device_(device) {
      core::register_event_handler(*this);
    }
    ~DeviceEvents() override { core::unregister_event_handler(*this); }
    void handle(const core::Event& event) override { device_.handle_device_event(event); }

   private:
    TargetDevice& device_;
  };

  TargetDevice(asio::io_context& loop, TargetDeviceOptions options, TargetDeviceClient& client)
      : loop_(loop), options_(std::move(options)), client_(client) {}
  Result<void> begin(StartStep step);
  void end(StartStep step);
  Result<void> open_device();
  void share_receives();
  void manage_ports();
  void stop_listening();
  void end_sessions();
  Result<void> listen();
  Result<void> listen(const std::string& portal);
  void listen_natively();
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void accept_requests();
  void accept(Request request);
  void collect();
  void handle_device_event(const core::Event& event);
  void warn(const std::string& text);

  asio::io_context& loop_;
  const TargetDeviceOptions options_;
  TargetDeviceClient& client_;
  std::unique_ptr<rdma::Host> host_;
  Guid ioc_guid_;
  core::Pd* pd_{};
  std::unique_ptr<weft::iser::SharedReceives> shared_;  // null: none
  std::vector<std::shared_ptr<TargetLink>> connections_;
  std::vector<std::string> addresses_;
  std::mutex mutex_;  // of the requests, which come where RDMA-CM calls its handlers
  std::deque<Request> requests_;
  std::unique_ptr<core::Work> accept_work_;
  std::unique_ptr<core::Work> collect_work_;
  std::vector<std::unique_ptr<core::RdmaCmId>> listeners_;
  std::uint64_t service_id_{};
  std::unique_ptr<DeviceManagement> management_;  // null: not yet, or not any more
  std::unique_ptr<DeviceEvents> device_events_;
  bool is_leaving_{};
  bool quiet_is_told_{};
  StartSequence sequence_{kDeviceOrder, [this](StartStep step) { end(step); }};
};

}  // namespace weft::programs::srp
