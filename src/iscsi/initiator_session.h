#pragma once

// The initiator's end of a session (RFC 7143 §4, §7): logins, commands with their data over one
// connection or several, task management, pings, logout, and what a loss leads to: at error
// recovery level 0 a new session, at level 1 what was lost of a command is asked for again, at
// level 2 the commands of a lost connection go on over another. Pure; over any datamover.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "iscsi/data_in_ledger.h"
#include "iscsi/datamover.h"
#include "iscsi/initiator_connection.h"
#include "iscsi/initiator_options.h"
#include "iscsi/initiator_state.h"
#include "iscsi/serial.h"
#include "wire/iscsi/async_message.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/snack.h"
#include "wire/iscsi/task_management.h"

namespace weft::iscsi {

/// One thread. Outcomes and handlers are called without anything half done, so they may call back.
class InitiatorSession final {
 public:
  /// Nothing: the session was lost, or the target did not answer in time.
  using ManagementHandler =
      std::function<void(std::optional<wire::iscsi::TaskManagementOutcome>, Instant)>;
  /// Pairs of a text response, which live as long as the call; nothing: the connection was lost.
  using TextHandler = std::function<void(const TextPairs*, Instant)>;

  /// MaxConnections of the options' preferences is how many connections there shall be.
  InitiatorSession(const InitiatorOptions& options, InitiatorEnvironment& environment);

  /// While Idle or Lost, when the last connection is gone.
  void start(Instant now);
  /// Logs out; the state is Idle when all has ended.
  void stop(Instant now);
  /// What hears of a connection, until its handle_lost(). `cid` is as of connect().
  [[nodiscard]] DatamoverClient& client(std::uint16_t cid) { return *connections_[cid]; }
  /// Answers connect().
  void handle_connected(std::uint16_t cid, Datamover& datamover, Instant now);
  void handle_connect_failed(std::uint16_t cid, std::string_view reason, Instant now);

  void submit(InitiatorCommand& command, Instant now);
  /// Its outcome follows: Aborted, unless it was answered before.
  void abort(InitiatorCommand& command, Instant now);
  /// A function that is for a logical unit or for all of the target: resets, ABORT TASK SET.
  void manage(wire::iscsi::TaskManagementFunction function, std::uint64_t lun,
              ManagementHandler handler, Instant now);
  /// One Text Request, as SendTargets=All (RFC 7143 Appendix C). At a time; while Live.
  void send_text(const TextPair& pair, TextHandler handler, Instant now);

  void handle_timeout(Instant now);
  /// When handle_timeout() is due; Instant::never() if nothing waits.
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] SessionState state() const { return state_; }
  /// Why the session is not Live.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::size_t under_way() const { return tasks_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// What the leading login has agreed on.
  [[nodiscard]] const Parameters& agreed() const { return agreed_; }
  /// Connections in the full feature phase.
  [[nodiscard]] std::size_t connections() const;
  /// What error recovery has done.
  [[nodiscard]] const RecoveryCounts& recoveries() const { return recoveries_; }

 private:
  friend struct InitiatorConnection;
  using Connection = InitiatorConnection;
  static constexpr unsigned kMaxRedirections = 8;       // policy
  static constexpr std::uint32_t kMaxR2tsAhead = 1024;  // policy: of one command

  /// How a command has ended, while data that belongs to it is missing.
  struct Ending {
    InitiatorOutcome outcome{};
    std::uint32_t stat_sn{};
    std::uint32_t data_in_count{};  // Data-In PDUs that there were
  };
  /// A command that was sent.
  struct Task {
    InitiatorCommand* command{};
    Connection* connection{};  // of its allegiance; nothing: that is lost
    std::uint16_t cid{};       // of that
    std::uint32_t cmd_sn{};
    DataInLedger data_in{};
    std::uint32_t next_r2t_sn{};
    std::set<std::uint32_t> missing_r2ts{};
    std::optional<std::uint32_t> owed_acknowledgement{};  // the tag of a Data-In with the A bit
    std::optional<Ending> ending{};
    Instant deadline{};
    bool aborting{};
  };
  struct Management {
    wire::iscsi::TaskManagementFunction function{};
    std::uint64_t lun{};
    std::uint32_t referenced_tag{wire::iscsi::kNoTag};
    std::uint32_t cmd_sn{};       // commands before it are meant
    std::uint32_t exp_data_sn{};  // of TASK REASSIGN
    Connection* connection{};     // nothing: that is lost
    Instant deadline{};
    ManagementHandler handler{};
  };
  struct Text {
    Connection* connection{};
    std::uint32_t tag{wire::iscsi::kNoTag};
    std::string received{};
    TextHandler handler{};  // nothing: none is under way
  };
  struct Ended {
    InitiatorCommand* command{};
    InitiatorOutcome outcome{};
  };
  enum class Logout : std::uint8_t { None, Wanted, Sent };

  // initiator_session.cc
  void apply(SessionEvent event, std::string_view reason, Instant now);
  void perform(SessionAction action, Instant now);
  void arm_timers(Instant now);
  void end_all(Instant now);
  void end_command(InitiatorCommand* command, InitiatorOutcome outcome);
  void end_waiting(InitiatorOutcome::Kind kind);
  void end_under_way(Instant now);
  void forget_session(Instant now);
  void tell_ended(Instant now);
  void check_session(Instant now);
  void check_commands(Instant now);
  [[nodiscard]] std::uint32_t level() const { return agreed_.error_recovery_level; }
  [[nodiscard]] Duration time_to_wait() const;

  // initiator_connection.cc
  void open(Connection& on, Instant now);
  void open_others(Instant now);
  void close(Connection& on, std::string_view reason);
  void drop(Connection& on, std::string_view reason);
  void leave(SessionEvent event, std::string_view reason, Instant now);
  void check_left(Instant now);
  void handle_pdu(Connection& on, const ReceivedPdu& pdu, Instant now);
  void handle_lost(Connection& on, std::string_view reason, Instant now);
  void lose_login(const std::string& why, Instant now);
  void lose_connection(Connection& on, std::uint32_t exp_stat_sn, const std::string& why,
                       Instant now);
  void handle_login(Connection& on, const ReceivedPdu& pdu, Instant now);
  void handle_agreed(Connection& on, Instant now);
  void settle(Connection& on, Instant now);
  void finish_login(Connection& on, Instant now);
  void handle_full_feature(Connection& on, const ReceivedPdu& pdu, Instant now);
  void check_connection(Connection& on, Instant now);
  [[nodiscard]] Instant deadline_of(const Connection& on) const;
  [[nodiscard]] bool is_all_down() const;
  /// The one with the fewest tasks of those that are up; nothing if none is.
  [[nodiscard]] Connection* pick() const;

  // initiator_commands.cc
  void send_waiting(Instant now);
  [[nodiscard]] bool window_is_open() const;
  void send_command(InitiatorCommand& command, Connection& on, Instant now);
  void send_task(std::uint32_t tag, const Task& task);
  void send_data(const Task& task, std::uint32_t tag, std::uint32_t transfer_tag,
                 std::size_t offset, std::size_t bytes);
  void handle_data_in(Connection& on, const ReceivedPdu& pdu);
  void handle_r2t(Connection& on, const ReceivedPdu& pdu);
  void handle_scsi_response(Connection& on, const ReceivedPdu& pdu);
  void end_with(Connection& on, std::uint32_t tag, Ending ending);
  void settle(Connection& on, std::uint32_t tag);
  void finish(Connection& on, std::uint32_t tag, InitiatorOutcome outcome);
  void release(const Task& task);

  // initiator_events.cc
  void handle_nop_in(Connection& on, const ReceivedPdu& pdu);
  void handle_async(Connection& on, const ReceivedPdu& pdu, Instant now);
  void handle_management_response(Connection& on, const ReceivedPdu& pdu, Instant now);
  void end_managed(const Management& management);
  void handle_logout_response(Connection& on, const ReceivedPdu& pdu, Instant now);
  void handle_text_response(Connection& on, const ReceivedPdu& pdu, Instant now);
  void send_management(Management management, Connection& on, Instant now);
  void send_ping(Connection& on, Instant now);
  void send_logout(Connection& on, Instant now);
  void end_text(const TextPairs* pairs, Instant now);

  // initiator_recovery.cc
  void handle_damaged(Connection& on, const ReceivedPdu& pdu);
  void handle_reject(Connection& on, const ReceivedPdu& pdu);
  void ask_for_statuses(Connection& on);
  void ask_for_data(Connection& on, std::uint32_t tag, Task& task);
  void ask_for_r2ts(Connection& on, std::uint32_t tag, Task& task, std::uint32_t r2t_sn);
  void acknowledge_data(Connection& on, const Task& task, std::uint32_t transfer_tag);
  void send_snack(Connection& on, wire::iscsi::SnackRequest request, const NumberRun& run);
  void recover_within(Connection& on);
  void check_recovery(Instant now);
  void send_recovery_logout(Connection& lost, Connection& via, Instant now);
  void recover_tasks(Connection& lost, Connection& via, Instant now);
  void recover_task(std::uint32_t tag, Task& task, Connection& via, Instant now);
  void handle_reassigned(Connection& on, const Management& management,
                         wire::iscsi::TaskManagementOutcome outcome, Instant now);

  [[nodiscard]] std::uint32_t next_tag();
  [[nodiscard]] Task* find_task(const Connection& on, std::uint32_t tag);
  template <class Header>
  void take_window(const Header& header);
  template <class Header>
  [[nodiscard]] bool take_numbers(Connection& on, const Header& header, bool takes_stat_sn,
                                  bool settled = true);
  /// A request without CmdSN of its own.
  template <class Header>
  void number_immediate(const Connection& on, Header& header) const {
    header.immediate = true;
    header.cmd_sn = cmd_sn_;
    header.exp_stat_sn = on.statuses.expected();
  }

  InitiatorOptions options_;
  InitiatorEnvironment& environment_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by CID; the first is the leading one
  SessionState state_{SessionState::Idle};
  std::string reason_;
  std::string address_;  // other than the options' while the target redirects
  std::string portal_;   // where the session has logged in
  bool redirected_{};
  unsigned redirections_{};  // since the last login
  Instant reconnect_deadline_{Instant::never()};
  Instant fast_fail_deadline_{Instant::never()};
  Instant dev_loss_deadline_{Instant::never()};
  std::optional<SessionEvent> leaving_;        // when the last connection is down
  Instant retain_deadline_{Instant::never()};  // of a session without connections
  Logout logout_{Logout::None};
  std::uint32_t logout_tag_{wire::iscsi::kNoTag};
  Instant logout_deadline_{Instant::never()};
  Duration wait_before_login_{};  // as the target has asked

  Parameters agreed_;
  std::uint16_t tsih_{};  // 0: there is no session at the target
  std::uint32_t cmd_sn_{1};
  std::uint32_t exp_cmd_sn_{1};
  std::uint32_t max_cmd_sn_{1};
  std::uint32_t next_tag_{1};
  std::map<std::uint32_t, Task> tasks_;  // by ITT
  std::deque<InitiatorCommand*> waiting_;
  std::map<std::uint32_t, Management> managements_;  // by ITT
  Text text_;
  RecoveryCounts recoveries_;
  std::vector<Ended> ended_;  // to be told
  bool telling_{};
};

template <class Header>
void InitiatorSession::take_window(const Header& header) {
  // RFC 7143 §4.2.2.1: a window that cannot be is ignored.
  if (serial_before(header.max_cmd_sn, header.exp_cmd_sn - 1)) {
    return;
  }
  if (serial_before(max_cmd_sn_, header.max_cmd_sn)) {
    max_cmd_sn_ = header.max_cmd_sn;
  }
  if (serial_before(exp_cmd_sn_, header.exp_cmd_sn)) {
    exp_cmd_sn_ = header.exp_cmd_sn;
  }
}

/// False if the PDU is not to be taken: it has come before, or the target's numbers break the
/// rules, after which the connection is lost. `settled` is as of StatusNumbers.
template <class Header>
bool InitiatorSession::take_numbers(Connection& on, const Header& header, bool takes_stat_sn,
                                    bool settled) {
  take_window(header);
  if (!takes_stat_sn) {
    return true;
  }
  if (level() == 0 && header.stat_sn != on.statuses.expected()) {
    drop(on, "a status is missing: StatSN is not the next");
    return false;
  }
  const auto verdict = on.statuses.take(header.stat_sn, settled);
  if (verdict == StatusNumbers::Verdict::TooFar) {
    drop(on, "a StatSN is far ahead of what was acknowledged");
    return false;
  }
  ask_for_statuses(on);
  return verdict == StatusNumbers::Verdict::New;
}

}  // namespace weft::iscsi
