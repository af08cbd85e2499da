#pragma once

// SRP targets as a program: disks, the devices that are served as long as they are there, signals.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/file_device.h"
#include "programs/rdma/host.h"
#include "programs/srp/awaited_devices.h"
#include "programs/srp/start_order.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"
#include "programs/srp/target_device.h"
#include "programs/srp/target_node.h"
#include "programs/srp/target_portals.h"

namespace weft::programs::srp {

struct TargetServiceOptions {
  std::vector<std::string> devices{};  ///< as libibverbs has them; none: all that there are
  bool uses_srq{true};                 ///< channels share receive buffers, where the device can
  bool waits{true};                    ///< for devices that are not there, or not any more
};

/// The thread that runs it, but for the workers of disks and the driver's own threads.
class TargetService final : private TargetDeviceClient {
 public:
  /// Reads the configuration anew, at SIGHUP.
  using Reload = std::function<Result<iscsi::Configuration>()>;

  /// Targets with their disks, and portals that listen, which it says on standard output, each time
  /// that devices have come; or the reason why not.
  [[nodiscard]] static Result<std::unique_ptr<TargetService>> start(
      const iscsi::Configuration& configuration, const TargetServiceOptions& options,
      Reload reload);
  ~TargetService();
  TargetService(const TargetService&) = delete;
  TargetService& operator=(const TargetService&) = delete;

  /// Until SIGTERM or SIGINT; NoSuchDevice: until the last device has gone, if it does not wait.
  Result<void> run();

 private:
  static constexpr unsigned kWorkers = 4;  // policy
  /// By identifier extension; nothing: the device's GUID.
  using Nodes = std::map<std::optional<std::uint64_t>, std::unique_ptr<TargetNode>>;

  /// A device that is not served, and why; without a name: there is none at all.
  struct Missing {
    std::string name{};
    Error why{};
  };

  explicit TargetService(const TargetServiceOptions& options)
      : options_(options), awaited_(options.devices) {}
  Result<void> open(const iscsi::Configuration& configuration);
  void end(StartStep step);
  Result<void> add(const iscsi::TargetConfiguration& target);
  Result<void> add_all(const std::vector<iscsi::TargetConfiguration>& targets);
  Result<void> start_devices();
  void end_devices();
  [[nodiscard]] std::vector<Missing> find_devices();
  Result<void> serve(const std::string& name);
  [[nodiscard]] Result<core::Device*> open_device(const std::string& name);
  void free_device(TargetDevice& gone);
  void close_device(core::Device& device);
  void look_again();
  void look_later();
  void say_missing(const std::vector<Missing>& missing);
  [[nodiscard]] std::vector<std::string> served() const;
  void take(LoginArrival arrival);
  void announce(std::size_t first) const;
  [[nodiscard]] TargetReport report() const;
  void await_signal();
  void reload();
  void remove(Nodes::iterator node);

  // TargetDeviceClient
  Result<void> name_targets(Guid ioc_guid) override;
  void end_sessions(Guid ioc_guid) override;
  Result<void> listen() override;
  [[nodiscard]] std::uint64_t service_id() const override { return portals_->service_id(); }
  TargetNode* node_of(Guid ioc_guid, const weft::srp::LoginRequest& request) override;
  [[nodiscard]] std::vector<wire::SrpPortId> targets(Guid ioc_guid) const override;
  void collect() override;
  void free_targets() override;
  void handle_gone(TargetDevice& device) override;
  void handle_quiet(TargetDevice& device) override;

  const TargetServiceOptions options_;
  Reload reload_;
  asio::io_context loop_;
  asio::signal_set signals_{loop_};
  asio::steady_timer retry_{loop_};
  iscsi::WorkerPool workers_{kWorkers};
  Nodes nodes_;
  std::vector<std::unique_ptr<TargetNode>> removed_;    // until their last channel is released
  std::vector<std::string> addresses_;                  // of the portals, with the ports they had
  std::unique_ptr<rdma::Host> host_;                    // null: no device is there
  std::unique_ptr<TargetPortals> portals_;              // as long as the host is
  std::vector<std::unique_ptr<TargetDevice>> devices_;  // in the order of their coming
  AwaitedDevices awaited_;
  std::string portal_told_;  // why it does not listen where it did
  std::unique_ptr<StatusSocket> status_;
  bool is_freeing_{};  // a device that has gone
  bool ends_{};
  Result<void> end_;  // of run()
  StartSequence sequence_{kStartOrder, [this](StartStep step) { end(step); }};
};

}  // namespace weft::programs::srp
