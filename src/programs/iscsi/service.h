#pragma once

// An iSCSI target as a program: SCSI targets with their disks, portals, signals.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "iscsi/target_server.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/file_device.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/iscsi/portal.h"
#include "programs/iscsi/sanitize_file.h"
#include "programs/iscsi/transport.h"
#include "scsi/target.h"

namespace weft::programs::iscsi {

/// The thread that runs it, but for the workers of disks.
class Service final : public weft::iscsi::ServerEnvironment {
 public:
  /// Reads the configuration anew, at SIGHUP.
  using Reload = std::function<Result<Configuration>()>;

  /// Targets with their disks, and portals that listen; or the reason why not. `make_transport` may
  /// be empty: then there is TCP alone.
  [[nodiscard]] static Result<std::unique_ptr<Service>> start(const Configuration& configuration,
                                                              Reload reload,
                                                              const MakeTransport& make_transport);
  ~Service();

  /// As they were configured, with the ports that they have.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  /// Until SIGTERM or SIGINT; then initiators are told.
  void run();

 private:
  static constexpr unsigned kWorkers = 4;  // policy
  /// One target node with its SCSI target and disks.
  struct Node {
    TargetConfiguration configuration;
    std::vector<std::unique_ptr<scsi::BlockDevice>> devices;
    std::vector<std::unique_ptr<SanitizeFile>> sanitize_files;  // of units; null: the unit has none
    std::unique_ptr<scsi::Target> scsi;
  };

  using Nodes = std::map<std::string, std::unique_ptr<Node>>;

  Service();
  void wake() override;
  [[nodiscard]] weft::iscsi::ChapLibrary& chap_library() override { return chap_; }
  [[nodiscard]] Result<std::unique_ptr<Node>> create_node(const TargetConfiguration& target);
  [[nodiscard]] Result<weft::iscsi::NodeOptions> options_of(const Node& node) const;
  [[nodiscard]] Result<void> add(const TargetConfiguration& target);
  Nodes::iterator remove(Nodes::iterator node);
  /// Ends what its units do, but for what a SANITIZE has kept.
  static void abandon(Node& node);
  [[nodiscard]] static Result<void> take_up_sanitize(Node& node);
  [[nodiscard]] Result<void> listen(const std::vector<std::string>& portals);
  void await_signal();
  void await_tick();
  void reload();
  void shut_down();

  Reload reload_;
  asio::io_context loop_;
  asio::signal_set signals_;
  asio::steady_timer tick_;
  LibcryptoChap chap_;
  Nodes nodes_;
  std::vector<std::unique_ptr<Node>> removed_;  // their last commands may not have ended
  WorkerPool workers_{kWorkers};                // which ends what it has of their disks first
  std::unique_ptr<weft::iscsi::TargetServer> server_;
  std::unique_ptr<Connections> connections_;
  std::vector<std::unique_ptr<Portal>> portals_;
  std::vector<std::string> addresses_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace weft::programs::iscsi
