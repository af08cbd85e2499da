#pragma once

// SRP targets as a program: disks, the device that is served as long as there is one, signals.

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
#include "programs/srp/start_order.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"
#include "programs/srp/target_device.h"
#include "programs/srp/target_node.h"

namespace weft::programs::srp {

struct TargetServiceOptions {
  std::string device{};  ///< as libibverbs has it; empty: the first
  bool uses_srq{true};   ///< all channels share receive buffers, if the device can
  bool waits{true};      ///< for a device that is not there, at the start or any more
};

/// The thread that runs it, but for the workers of disks and the driver's own threads.
class TargetService final : private TargetDeviceClient {
 public:
  /// Reads the configuration anew, at SIGHUP.
  using Reload = std::function<Result<iscsi::Configuration>()>;

  /// Targets with their disks, and portals that listen, which it says on standard output, each time
  /// that a device has come; or the reason why not.
  [[nodiscard]] static Result<std::unique_ptr<TargetService>> start(
      const iscsi::Configuration& configuration, const TargetServiceOptions& options,
      Reload reload);
  ~TargetService();
  TargetService(const TargetService&) = delete;
  TargetService& operator=(const TargetService&) = delete;

  /// Until SIGTERM or SIGINT; NoSuchDevice: until the device has gone, if it does not wait.
  Result<void> run();

 private:
  static constexpr unsigned kWorkers = 4;  // policy
  /// By identifier extension; nothing: the device's GUID.
  using Nodes = std::map<std::optional<std::uint64_t>, std::unique_ptr<TargetNode>>;

  explicit TargetService(const TargetServiceOptions& options) : options_(options) {}
  Result<void> open(const iscsi::Configuration& configuration);
  void end(StartStep step);
  Result<void> add(const iscsi::TargetConfiguration& target);
  Result<void> add_all(const std::vector<iscsi::TargetConfiguration>& targets);
  Result<void> start_devices();
  Result<void> find_device();
  void wait_for_device(const Error& why);
  [[nodiscard]] Error gone_error() const;
  void announce() const;
  [[nodiscard]] TargetReport report() const;
  void await_signal();
  void reload();
  void remove(Nodes::iterator node);

  // TargetDeviceClient
  Result<void> name_targets(Guid ioc_guid) override;
  void end_sessions() override;
  TargetNode* node_of(const weft::srp::LoginRequest& request) override;
  [[nodiscard]] std::vector<wire::SrpPortId> targets() const override;
  void collect() override;
  void free_targets() override;
  void handle_gone() override;
  void handle_quiet() override;

  const TargetServiceOptions options_;
  Reload reload_;
  asio::io_context loop_;
  asio::signal_set signals_{loop_};
  asio::steady_timer retry_{loop_};
  iscsi::WorkerPool workers_{kWorkers};
  Nodes nodes_;
  std::vector<std::unique_ptr<TargetNode>> removed_;  // until their last channel is released
  std::vector<std::string> portals_;                  // with the ports that they had
  std::unique_ptr<TargetDevice> device_;              // null: it waits for one
  std::unique_ptr<StatusSocket> status_;
  std::string told_;  // why it waits
  bool ends_{};
  Result<void> end_;  // of run()
  StartSequence sequence_{kStartOrder, [this](StartStep step) { end(step); }};
};

}  // namespace weft::programs::srp
