#pragma once

// The target side of iSCSI (RFC 7143): nodes, sessions and connections over datamovers. Pure.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "iscsi/buffer_cache.h"
#include "iscsi/completion_queue.h"
#include "iscsi/datamover.h"
#include "iscsi/target_options.h"

namespace weft::iscsi {

class TargetConnection;
class TargetSession;
struct SessionIdentity;

/// One thread, but for completions of commands, which may come on any.
class TargetServer {
 public:
  /// `environment` must outlive the server and the last command of its SCSI targets.
  TargetServer(const ServerOptions& options, ServerEnvironment& environment);
  ~TargetServer();

  /// Exists for a name that is taken; InvalidArgument for what is no iSCSI Name or for CHAP secrets
  /// that break the rules. The SCSI target must outlive the server.
  Result<void> add_node(const NodeOptions& node);
  /// Replaces who may log in from now on, and how; NotFound.
  Result<void> change_node(const NodeOptions& node);
  /// Ends the node's sessions; NotFound.
  Result<void> remove_node(std::string_view name, Instant now);

  /// What SendTargets says where the portal group is, as HOST:PORT: to who asks by TCP, and to who
  /// asks by iSER.
  void set_addresses(std::vector<std::string> addresses, std::vector<std::string> rdma) {
    options_.addresses = std::move(addresses);
    options_.rdma_addresses = std::move(rdma);
  }

  /// A connection has been made. The datamover's client until handle_lost(), after which it is
  /// gone. Nothing at the limit of connections.
  [[nodiscard]] DatamoverClient* accept(Datamover& datamover, Instant now);

  void handle_completions(Instant now);
  void handle_timeout(Instant now);
  /// When handle_timeout() is due; Instant::never() if nothing waits.
  [[nodiscard]] Instant deadline() const;
  /// Tells every initiator that its session ends, and ends all connections (RFC 7143 §11.9.1).
  void shut_down(Instant now);

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }

 private:
  friend class TargetConnection;
  friend class TargetSession;

  [[nodiscard]] const NodeOptions* find_node(std::string_view name) const;
  [[nodiscard]] TargetSession* find_session(std::uint16_t tsih) const;
  // The session that a login reinstates (RFC 7143 §6.3.5).
  [[nodiscard]] TargetSession* find_session(std::string_view initiator, std::uint64_t isid,
                                            std::string_view target) const;
  // Nothing at the limit of sessions.
  [[nodiscard]] std::optional<std::uint16_t> free_tsih();
  TargetSession& add_session(const SessionIdentity& identity, const Parameters& agreed,
                             std::uint32_t first_cmd_sn);
  void close_session(TargetSession& session, std::string_view reason, Instant now);
  void close_session_unless_held(TargetSession& session, std::string_view reason, Instant now);
  void forget(TargetConnection& connection);
  void drain(Instant now);
  void finish_management(const ManagementEnd& ended, Instant now);
  void end_sessions_of(std::string_view target, std::string_view reason, Instant now);
  void check_session(TargetSession& session, Instant now);

  ServerOptions options_;
  ServerEnvironment& environment_;
  std::shared_ptr<CompletionQueue> completions_;
  std::vector<Ended> spare_;  // what is taken from there: its room
  BufferCache buffers_;       // of what commands read
  std::vector<NodeOptions> nodes_;
  std::map<std::uint16_t, std::unique_ptr<TargetSession>> sessions_;  // by TSIH
  std::vector<std::unique_ptr<TargetConnection>> connections_;
  std::vector<std::unique_ptr<TargetSession>> closed_;  // freed when no caller is inside
  std::uint16_t next_tsih_{1};
};

}  // namespace weft::iscsi
