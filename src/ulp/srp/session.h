#pragma once

// An initiator's session with a target port over one channel: login, credits, commands, task
// management, and the return of a lost channel. Time is handed in; one thread. Completions are
// told from inside handle_ functions and may submit more.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/result.h"
#include "base/time.h"
#include "ulp/srp/initiator_connection.h"
#include "ulp/srp/path_state.h"
#include "wire/srp/information_unit.h"

namespace weft::srp {

/// How a request ended.
struct Outcome {
  enum class Kind : std::uint8_t {
    Answered,     ///< by an SRP_RSP
    Aborted,      ///< by task management; it has no effect from now on
    Interrupted,  ///< its channel was lost: perhaps executed, perhaps not
    PathFailed,   ///< never sent
  };
  Kind kind{};
  std::uint8_t status{};  ///< of SCSI, if Answered
  std::vector<std::byte> sense{};
  std::int64_t residual{};  ///< octets too many in the buffer (positive), or too few
  [[nodiscard]] bool is_good() const { return kind == Kind::Answered && status == 0; }
};

struct Request {
  enum class Direction : std::uint8_t { None, Out, In };
  std::uint64_t id{};  ///< of the caller
  std::uint64_t lun{};
  wire::SrpTaskAttribute attribute{};
  std::vector<std::byte> cdb{};  ///< 6 to 268 octets
  Direction direction{};
  std::vector<LocalPiece> memory{};
  ByteSpan immediate{};  ///< the same data-out where this side can read it; empty: never immediate
};

class SessionClient {
 public:
  /// Once for each request that was submitted. Its memory is the client's again.
  virtual void handle_outcome(std::uint64_t id, const Outcome& outcome) = 0;
  virtual void handle_path_state(PathState state) = 0;
  /// SRP_AER_REQ.
  virtual void handle_event(std::uint64_t lun, ByteSpan sense) = 0;

 protected:
  ~SessionClient() = default;
};

struct SessionOptions {
  wire::SrpPortId initiator_port_id{};
  wire::SrpPortId target_port_id{};
  bool wants_immediate_data{true};
  wire::SrpMultichannel multichannel{};
  std::uint32_t max_request_iu{8260};  ///< that this side sends
  std::size_t max_queued{1024};        ///< policy: requests that wait for a credit or a login
  Duration task_timeout{Duration::seconds(5)};
  Duration login_timeout{Duration::seconds(5)};     ///< policy
  Duration reconnect_delay{Duration::seconds(10)};  ///< timers as Linux's SRP transport has them
  std::optional<Duration> fast_io_fail{Duration::seconds(15)};
  std::optional<Duration> dev_loss{Duration::seconds(60)};
};

class Session {
 public:
  Session(SessionClient& client, InitiatorConnection& connection, MemoryMapper& memory,
          const SessionOptions& options)
      : client_(client), connection_(connection), memory_(memory), options_(options) {}

  void start(Instant now) { apply(PathEvent::Start, now); }
  void stop(Instant now);
  /// OutOfMemory: too many wait. ShutDown: the path is lost. InvalidArgument: no such CDB, or the
  /// id is in use.
  Result<void> submit(Request request, Instant now);
  /// ABORT TASK; if that fails, LOGICAL UNIT RESET; if that does, a new login (R-SRPI-5).
  Result<void> abort(std::uint64_t id, Instant now);
  Result<void> reset_unit(std::uint64_t lun, Instant now);
  /// Requests that have not been sent end as PathFailed, so that another path may have them.
  void end_waiting() { end_queued(Outcome::Kind::PathFailed); }

  void handle_connected(ByteSpan login_rsp, Instant now);
  /// The private data of a REJ with reason 28; empty for any other refusal.
  void handle_rejected(ByteSpan login_rej, Instant now);
  /// A REJ with reason 10, stale connection: the login is tried again after the delay, by when the
  /// target's time-wait has passed, a few times in a row (R-SRPI-8a).
  void handle_stale(Instant now);
  /// The QP has failed, or the peer has disconnected.
  void handle_lost(Instant now) { lose_channel(now); }
  void handle_receive(ByteSpan unit, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] PathState state() const { return state_; }
  [[nodiscard]] std::int64_t credits() const { return credits_; }
  [[nodiscard]] std::size_t outstanding() const { return sent_.size(); }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  [[nodiscard]] std::optional<wire::SrpLoginRejReason> last_rejection() const { return rejection_; }
  [[nodiscard]] std::uint64_t violations() const { return violations_; }

 private:
  struct Sent {
    Request request;
    InplaceVector<std::uint64_t, 2> mappings{};  // of the memory, and of a table
  };
  struct Task {  // at most one at a time: one credit is kept for it
    std::uint64_t tag{};
    wire::SrpTaskFunction function{};
    std::uint64_t lun{};
    std::uint64_t task_tag{};
    Instant until{};
  };

  void apply(PathEvent event, Instant now);
  void connect(Instant now);
  void block(Instant now);
  void lose_channel(Instant now);
  void end_sent(Outcome::Kind kind);
  void end_queued(Outcome::Kind kind);
  void send_queued(Instant now);
  [[nodiscard]] bool send(Request& request, Instant now);
  [[nodiscard]] Result<wire::SrpCommandUnit> build(const Request& request, Sent& sent);
  [[nodiscard]] Result<wire::SrpDataBuffer> describe(const Request& request, Sent& sent);
  [[nodiscard]] std::map<std::uint64_t, Sent>::iterator remember(std::uint64_t tag, Sent sent);
  [[nodiscard]] bool fits_immediate(const Request& request) const;
  void end(std::map<std::uint64_t, Sent>::iterator sent, const Outcome& outcome);
  void handle_response(ByteSpan unit, Instant now);
  void handle_task_response(const wire::SrpResponseUnit& response, Instant now);
  void answer_credit(ByteSpan unit, Instant now);
  void answer_event(ByteSpan unit, Instant now);
  Result<void> manage(const Task& task, Instant now);
  void escalate(Instant now);
  void violate(Instant now);

  SessionClient& client_;
  InitiatorConnection& connection_;
  MemoryMapper& memory_;
  SessionOptions options_;
  PathState state_{PathState::Idle};
  std::deque<Request> queue_;
  std::map<std::uint64_t, Sent> sent_;              // by tag
  std::map<std::uint64_t, Sent>::node_type spare_;  // of one that has ended, for the next
  std::vector<std::byte> unit_;                     // that is sent
  std::optional<Task> task_;
  std::int64_t credits_{};
  std::uint32_t max_request_iu_{};  // of the login
  bool immediate_data_{};
  std::uint64_t next_tag_{1};
  bool is_connecting_{};
  Instant login_until_{Instant::never()};
  Instant reconnect_at_{Instant::never()};
  Instant fast_fail_at_{Instant::never()};
  Instant dev_loss_at_{Instant::never()};
  std::optional<wire::SrpLoginRejReason> rejection_;
  unsigned stale_{};  // in a row
  std::uint64_t violations_{};
};

}  // namespace weft::srp
