#pragma once

// SRP targets as a program: ports that listen by RDMA-CM, channels, disks, signals.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/events.h"
#include "core/work.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/file_device.h"
#include "programs/rdma/host.h"
#include "programs/srp/device_management.h"
#include "programs/srp/start_order.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"
#include "programs/srp/target_events.h"
#include "programs/srp/target_link.h"
#include "programs/srp/target_node.h"
#include "ulp/iser/shared_receives.h"

namespace weft::programs::srp {

/// The thread that runs it, but for the workers of disks and the driver's own threads.
class TargetService final : private core::RdmaCmHandler {
 public:
  /// Reads the configuration anew, at SIGHUP.
  using Reload = std::function<Result<iscsi::Configuration>()>;

  /// Targets with their disks, and portals that listen; or the reason why not. `device`: as
  /// libibverbs names it; empty: the first. `uses_srq`: all channels share receive buffers, if the
  /// device can.
  [[nodiscard]] static Result<std::unique_ptr<TargetService>> start(
      const iscsi::Configuration& configuration, const std::string& device, bool uses_srq,
      Reload reload);
  ~TargetService();
  TargetService(const TargetService&) = delete;
  TargetService& operator=(const TargetService&) = delete;

  /// As they were configured, with the ports that they have.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  [[nodiscard]] std::vector<wire::SrpPortId> targets() const;
  /// Until SIGTERM or SIGINT; NoSuchDevice: until the device has gone.
  Result<void> run();

 private:
  static constexpr unsigned kWorkers = 4;  // policy
  using Nodes = std::map<wire::SrpPortId, std::unique_ptr<TargetNode>>;
  struct Request {
    std::unique_ptr<core::RdmaCmId> id;
    verbs::ConnectionParameters offered;
  };

  /// From its making to its end (R-SRPT-3).
  class DeviceEvents final : public core::EventHandler {
   public:
    explicit DeviceEvents(TargetService& service)
        : EventHandler(service.host_->device()), service_(service) {
      core::register_event_handler(*this);
    }
    ~DeviceEvents() override { core::unregister_event_handler(*this); }
    void handle(const core::Event& event) override { service_.handle_device_event(event); }

   private:
    TargetService& service_;
  };

  TargetService() = default;
  Result<void> open(const iscsi::Configuration& configuration, const std::string& device,
                    bool uses_srq);
  void end(StartStep step);
  Result<void> open_device(const std::string& device, bool uses_srq);
  void share_receives();
  void manage_ports();
  void stop_listening();
  void end_targets();
  Result<void> add(const iscsi::TargetConfiguration& target);
  Result<void> listen(const std::vector<std::string>& portals);
  Result<void> listen(const std::string& portal);
  void listen_natively();
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void accept_requests();
  void accept(Request request);
  [[nodiscard]] TargetNode* node_of(const weft::srp::LoginRequest& request);
  void collect();
  void tell_management();
  [[nodiscard]] TargetReport report() const;
  void handle_device_event(const core::Event& event);
  void await_signal();
  void reload();
  void remove(Nodes::iterator node);

  Reload reload_;
  asio::io_context loop_;
  asio::signal_set signals_{loop_};
  iscsi::WorkerPool workers_{kWorkers};
  std::unique_ptr<rdma::Host> host_;
  Guid ioc_guid_;
  core::Pd* pd_{};
  std::unique_ptr<weft::iser::SharedReceives> shared_;  // null: none
  Nodes nodes_;
  std::vector<std::unique_ptr<TargetNode>> removed_;  // until their last channel is released
  std::vector<std::shared_ptr<TargetLink>> connections_;
  std::vector<std::string> addresses_;
  std::mutex mutex_;  // of the requests, which come in RDMA-CM's thread
  std::deque<Request> requests_;
  std::unique_ptr<core::Work> accept_work_;
  std::unique_ptr<core::Work> collect_work_;
  std::vector<std::unique_ptr<core::RdmaCmId>> listeners_;
  std::uint64_t service_id_{};  // that device management tells
  std::unique_ptr<DeviceManagement> management_;
  std::unique_ptr<DeviceEvents> device_events_;
  std::unique_ptr<StatusSocket> status_;
  Result<void> end_;  // of run()
  StartSequence sequence_{[this](StartStep step) { end(step); }};
};

}  // namespace weft::programs::srp
