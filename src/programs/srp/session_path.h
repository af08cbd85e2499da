#pragma once

// The way to a logical unit of an SRP target: a session, the link under it, and the thread of both.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "programs/disk/disk_path.h"
#include "programs/srp/initiator_link.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"
#include "programs/srp/target_url.h"
#include "ulp/srp/session.h"

namespace weft::programs::srp {

/// What a session is told on a command line, or among the parameters of the plugin.
struct PathOptions {
  std::string initiator{};  ///< a port identifier; empty: a random extension and the device's GUID
  std::string device{};     ///< as libibverbs has it; empty: the first
  unsigned fast_fail_seconds{30};
  unsigned dev_loss_seconds{600};
  unsigned timeout_seconds{30};  ///< until a command is aborted
  bool answers_status{};         ///< `weft srp status` shows it
  bool no_immediate_data{};      ///< all data by RDMA of the target, as SRP revision 16a has it
};

class SessionPath final : public disk::DiskPath,
                          private weft::srp::SessionClient,
                          private InitiatorLinkClient {
 public:
  /// What is worth saying of the session goes to `log`, from its thread.
  using Log = std::function<void(const std::string&)>;
  SessionPath(TargetUrl target, PathOptions options, Log log);
  /// Logs out, in bounds.
  ~SessionPath() override;
  SessionPath(const SessionPath&) = delete;
  SessionPath& operator=(const SessionPath&) = delete;

  /// Starts the thread and logs in; Io with the reason why not.
  Result<void> open();
  /// As whom it logs in, once it is open.
  [[nodiscard]] const wire::SrpPortId& initiator() const { return initiator_; }
  disk::DiskAnswer execute(const disk::DiskCommand& command) override;

 private:
  class Call;
  Result<void> start();
  void act(std::function<void(Instant)> act);
  void settle();
  void say(const std::string& reason);
  [[nodiscard]] AttachReport report();
  [[nodiscard]] disk::DiskAnswer answer_of(Call& call, const disk::DiskCommand& command);

  void handle_outcome(std::uint64_t id, const weft::srp::Outcome& outcome) override;
  void handle_path_state(weft::srp::PathState state) override;
  void handle_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}

  void handle_connected(ByteSpan login_rsp) override;
  void handle_refused(ByteSpan login_rej, const std::string& reason) override;
  void handle_stale(const std::string& reason) override;
  void handle_lost(const std::string& reason) override;
  void handle_unit(ByteSpan unit) override;

  const TargetUrl target_;
  const PathOptions options_;
  const Log log_;
  wire::SrpPortId initiator_{};
  asio::io_context loop_;
  asio::steady_timer timer_{loop_};
  // The thread's:
  std::unique_ptr<InitiatorLink> link_;
  std::unique_ptr<weft::srp::Session> session_;
  std::map<std::uint64_t, Call*> calls_;
  std::unique_ptr<StatusSocket> status_;
  std::uint64_t logins_{};
  std::uint64_t losses_{};

  std::atomic<std::uint64_t> next_call_{1};
  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  weft::srp::PathState state_{};
  bool is_settled_{};  // the first login has ended
  std::string reason_;
};

}  // namespace weft::programs::srp
