#pragma once

// The initiator's endpoints, sessions and their connections, as open-iscsi's transport asks for
// them (R-ISER-1 to 11). One thread: that of the environment's work; calls that wait let it go on.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/environment.h"
#include "core/work.h"
#include "ulp/iser/connection.h"

namespace weft::iser {

/// What ep_poll says (R-ISER-2).
enum class PollResult : std::int8_t { Failed = -1, NotYet = 0, Connected = 1 };

enum class StopFlag : std::uint8_t { Recover, Terminate };

/// Names an endpoint; never used twice.
using EndpointId = std::uint64_t;

class Session;

/// A connection as the iSCSI layer has it: bound to an endpoint's, which may go before it.
class SessionConnection {
 public:
  SessionConnection(Session& session, std::uint32_t index) : session_(session), index_(index) {}
  [[nodiscard]] Session& session() const { return session_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] bool is_leading() const { return is_leading_; }
  /// Null: not bound, or the connection is gone.
  [[nodiscard]] Connection* connection() const { return connection_; }

 private:
  friend class Initiator;
  Session& session_;
  const std::uint32_t index_;
  bool is_leading_{};
  bool is_started_{};
  Connection* connection_{};
};

struct SessionOptions {
  std::uint32_t max_commands{128};
  std::uint32_t queue_depth{32};  ///< of a logical unit
  std::uint32_t initial_cmd_sn{};
  std::uint32_t max_connections{1};
};

/// What the SCSI layer is told of a session's adapter (`struct Scsi_Host`).
struct ScsiHost {
  std::uint32_t max_commands{};        ///< at a time, of all units: `can_queue`
  std::uint32_t commands_per_unit{};   ///< `cmd_per_lun`
  std::uint32_t max_transfer_bytes{};  ///< of a command, each way
  HostProtections protections{};       ///< none: commands have no TaskProtection
  HostGuards guards{};
};

class Session {
 public:
  /// As they were asked for; no more commands than the connection has room for.
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] const ScsiHost& host() const { return host_; }

 private:
  friend class Initiator;
  SessionOptions options_;
  ScsiHost host_;
  std::map<std::uint32_t, std::unique_ptr<SessionConnection>> connections_;  // by index
};

class Initiator {
 public:
  using MakeCmId = std::function<Result<std::unique_ptr<CmId>>(CmHandler& handler)>;
  Initiator(core::Environment& environment, MakeCmId make_cm_id);
  /// Ends every connection, and waits.
  ~Initiator();

  /// Begins to connect; `waits`: until it is up, or Io (R-ISER-1).
  Result<EndpointId> connect_endpoint(std::string_view address, const ConnectionOptions& options,
                                      bool waits);
  /// Waits at most so long (R-ISER-2).
  PollResult poll_endpoint(EndpointId endpoint, Duration timeout);
  /// The endpoint is gone; what is left of its connection goes by itself when the iSCSI layer has
  /// stopped it, at once if that never started it (R-ISER-7).
  void disconnect_endpoint(EndpointId endpoint);

  /// A session and its host, of an endpoint that is up; null: the endpoint is gone or not up. Its
  /// protection is that of the device, where the connection was made for it (R-ISER-11).
  Session* create_session(EndpointId endpoint, const SessionOptions& options);
  /// Stops its connections; session and host are gone.
  void destroy_session(Session& session);
  /// Null: the index is taken, or beyond the session's connections (R-ISER-3).
  SessionConnection* create_connection(Session& session, std::uint32_t index);
  /// InvalidArgument: the endpoint is gone, or not up any more (R-ISER-4), or the connection is
  /// bound to another that was not stopped.
  Result<void> bind(SessionConnection& connection, EndpointId endpoint, bool is_leading,
                    iscsi::DatamoverClient& client);
  /// From now on the connection stays until stop() (R-ISER-5).
  Result<void> start(SessionConnection& connection);
  /// Ends the connection and waits for its last completion (R-ISER-6). Again: nothing.
  void stop(SessionConnection& connection, StopFlag flag);

  /// The connection of an endpoint; null: it is gone.
  [[nodiscard]] Connection* find(EndpointId endpoint);
  /// Connections that are not released yet.
  [[nodiscard]] std::size_t connections() const { return entries_.size(); }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }
  [[nodiscard]] StopFlag last_stop() const { return last_stop_; }

 private:
  struct Entry {
    EndpointId endpoint{};
    bool has_endpoint{true};
    SessionConnection* user{};  // started and not stopped
    std::unique_ptr<Connection> connection;
  };
  void release();

  core::Environment& environment_;
  MakeCmId make_cm_id_;
  EndpointId next_endpoint_{1};
  StopFlag last_stop_{};
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Session>> sessions_;
  core::Work release_work_;
};

}  // namespace weft::iser
