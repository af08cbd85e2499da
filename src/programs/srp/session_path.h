#pragma once

// The way to a logical unit of an SRP target: one path or several, their device, and the thread of
// all. Of several, the first is taken while it is there; commands go by another when it is lost,
// and by the first again when it comes back.

#include <asio/io_context.hpp>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "programs/disk/disk_path.h"
#include "programs/loop/deadline_timer.h"
#include "programs/loop/handoff_list.h"
#include "programs/srp/initiator_device.h"
#include "programs/srp/session_leg.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"
#include "programs/srp/target_url.h"
#include "ulp/srp/multipath.h"
#include "ulp/srp/session.h"

namespace weft::programs::srp {

/// What a session is told on a command line, or among the parameters of the plugin.
struct PathOptions {
  /// A port identifier; empty: a random extension and the device's GUID, of each path its own.
  std::string initiator{};
  std::string device{};  ///< as libibverbs has it; empty: the first
  unsigned fast_fail_seconds{30};
  unsigned dev_loss_seconds{600};
  unsigned timeout_seconds{30};  ///< until a command is aborted
  bool answers_status{};         ///< `weft srp status` shows it
  bool keeps_channels{};         ///< a login ends no other channel of the same initiator
  bool no_immediate_data{};      ///< all data by RDMA of the target, as SRP revision 16a has it
};

class SessionPath final : public disk::DiskPath,
                          private weft::srp::MultipathClient,
                          private SessionLegClient {
 public:
  /// What is worth saying of the sessions goes to `log`, from their thread.
  using Log = std::function<void(const std::string&)>;
  /// At least one; all of the same LUN.
  SessionPath(std::vector<TargetUrl> targets, PathOptions options, Log log);
  /// Logs out, in bounds.
  ~SessionPath() override;
  SessionPath(const SessionPath&) = delete;
  SessionPath& operator=(const SessionPath&) = delete;

  /// Starts the thread and logs in; Io with the reason why not. Of several paths one is enough;
  /// InvalidArgument: they lead to different units.
  Result<void> open();
  /// As whom the first path logs in, once it is open.
  [[nodiscard]] const wire::SrpPortId& initiator() const { return initiator_; }
  /// Of the port by which the first path goes, once that is live; zero: it is not.
  [[nodiscard]] Gid source_gid();
  disk::DiskAnswer execute(const disk::DiskCommand& command) override;

 private:
  class Call;
  enum class Verdict : std::uint8_t { Pending, Usable, Failed, Foreign };
  [[nodiscard]] bool has_several() const { return targets_.size() > 1; }
  Result<void> start();
  [[nodiscard]] Result<SessionLegOptions> options_of(const TargetUrl& target);
  void act(std::function<void(Instant)> act);
  void submit_all();
  void settle();
  void expire();
  void say(const std::string& reason);
  void judge(const SessionLeg& leg, Verdict verdict);
  [[nodiscard]] AttachReport report() const;
  [[nodiscard]] disk::DiskAnswer answer_of(Call& call, const disk::DiskCommand& command);

  void handle_outcome(std::uint64_t id, const weft::srp::Outcome& outcome) override;

  void handle_outcome(SessionLeg& leg, std::uint64_t id,
                      const weft::srp::Outcome& outcome) override;
  void handle_state(SessionLeg& leg, weft::srp::PathState state) override;
  void handle_designators(SessionLeg& leg, const Result<std::vector<std::byte>>& found) override;
  void handle_reason(SessionLeg& leg, const std::string& reason) override;
  void handle_settled() override { settle(); }

  const std::vector<TargetUrl> targets_;
  const PathOptions options_;
  const Log log_;
  wire::SrpPortId initiator_{};
  asio::io_context loop_;
  DeadlineTimer timer_{loop_, [this] { expire(); }};
  // The thread's:
  std::unique_ptr<InitiatorDevice> device_;
  std::vector<std::unique_ptr<SessionLeg>> legs_;
  std::unique_ptr<weft::srp::Multipath> multipath_;
  std::vector<Verdict> verdicts_;       // of the legs: whether commands may take them
  std::vector<std::byte> designators_;  // of the unit; empty: not known yet
  std::map<std::uint64_t, Call*> calls_;
  std::unique_ptr<StatusSocket> status_;
  bool is_ending_{};

  std::atomic<std::uint64_t> next_call_{1};
  HandoffList<Call> submitted_;
  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool is_decided_{};  // of every leg, once
  bool is_usable_{};   // one of them, now
  bool is_foreign_{};  // one leads to another unit than the first
  std::string reason_;
};

}  // namespace weft::programs::srp
