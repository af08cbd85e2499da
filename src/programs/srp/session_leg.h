#pragma once

// One path of several to a logical unit: a session with a target port, the link under it, and what
// the unit at its end is. The loop's thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "programs/srp/buffer_pool.h"
#include "programs/srp/initiator_device.h"
#include "programs/srp/initiator_link.h"
#include "programs/srp/status_report.h"
#include "programs/srp/target_url.h"
#include "ulp/srp/session.h"

namespace weft::programs::srp {

class SessionLeg;

/// Whoever has the legs. Told from inside handle_timeout() and of events, never from inside
/// another call.
class SessionLegClient {
 public:
  virtual void handle_outcome(SessionLeg& leg, std::uint64_t id,
                              const weft::srp::Outcome& outcome) = 0;
  virtual void handle_state(SessionLeg& leg, weft::srp::PathState state) = 0;
  /// After each login, and from time to time: the unit's designators, as unit_designators() has
  /// them, or why they are not known.
  virtual void handle_designators(SessionLeg& leg, const Result<std::vector<std::byte>>& page) = 0;
  virtual void handle_reason(SessionLeg& leg, const std::string& reason) = 0;
  /// deadline() may have changed.
  virtual void handle_settled() = 0;

 protected:
  ~SessionLegClient() = default;
};

struct SessionLegOptions {
  weft::srp::SessionOptions session{};
  bool asks_designators{};  ///< otherwise handle_designators() does not come
};

class SessionLeg final : private weft::srp::SessionClient, private InitiatorLinkClient {
 public:
  /// The device outlives it.
  SessionLeg(InitiatorDevice& device, std::size_t index, const TargetUrl& target,
             const SessionLegOptions& options, SessionLegClient& client);
  /// Waits for channels that are ending.
  ~SessionLeg() = default;
  SessionLeg(const SessionLeg&) = delete;
  SessionLeg& operator=(const SessionLeg&) = delete;

  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] weft::srp::Session& session() { return session_; }
  [[nodiscard]] const wire::SrpPortId& initiator() const {
    return options_.session.initiator_port_id;
  }
  [[nodiscard]] PathStatus status() const;
  /// Of the port by which the session goes; zero: it is not live.
  [[nodiscard]] Gid source_gid() const { return link_.source_gid(); }

  /// Logs in; again after the delay where the first login fails, if it is to be `persistent`.
  void start(bool persistent);
  /// Logs out; what was sent goes first, in bounds.
  void stop();
  /// Gives it up for good.
  void give_up(const std::string& reason);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  static constexpr std::uint64_t kInquiry = ~std::uint64_t{0};  // the id of no command

  void ask_designators();
  void take_designators(const weft::srp::Outcome& outcome);

  void handle_outcome(std::uint64_t id, const weft::srp::Outcome& outcome) override;
  void handle_path_state(weft::srp::PathState state) override;
  void handle_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}

  void handle_connected(ByteSpan login_rsp) override;
  void handle_refused(ByteSpan login_rej, const std::string& reason) override;
  void handle_stale(const std::string& reason) override;
  void handle_lost(const std::string& reason) override;
  void handle_unit(ByteSpan unit) override;

  InitiatorDevice& device_;
  const std::size_t index_;
  const TargetUrl target_;
  const SessionLegOptions options_;
  SessionLegClient& client_;
  BufferPool::Lease inquiry_;  // its data, while it is under way
  InitiatorLink link_;
  weft::srp::Session session_;
  bool is_persistent_{};
  bool is_stopped_{};
  Instant start_at_{Instant::never()};
  Instant check_at_{Instant::never()};  // an idle path is asked, so that its loss is noticed
  std::uint64_t logins_{};
  std::uint64_t losses_{};
  std::string last_failure_;
};

}  // namespace weft::programs::srp
