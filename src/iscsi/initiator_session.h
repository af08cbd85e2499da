#pragma once

// The initiator's end of a session with one connection, error recovery level 0 (RFC 7143 §4, §7):
// login, commands with their data, task management, pings, logout, and a new login after a loss.
// Pure; over any datamover whose PDUs carry the data, as TCP's do.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "iscsi/datamover.h"
#include "iscsi/initiator_login.h"
#include "iscsi/initiator_options.h"
#include "iscsi/initiator_state.h"
#include "iscsi/serial.h"
#include "wire/iscsi/async_message.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/task_management.h"

namespace weft::iscsi {

/// One thread. Outcomes and handlers are called without anything half done, so they may call back.
class InitiatorSession final : public DatamoverClient {
 public:
  /// Nothing: the session was lost, or the target did not answer in time.
  using ManagementHandler =
      std::function<void(std::optional<wire::iscsi::TaskManagementOutcome>, Instant)>;
  /// Pairs of a text response, which live as long as the call; nothing: the session was lost.
  using TextHandler = std::function<void(const TextPairs*, Instant)>;

  InitiatorSession(const InitiatorOptions& options, InitiatorEnvironment& environment)
      : options_(options), environment_(environment) {}

  /// While Idle or Lost, when the last connection is gone.
  void start(Instant now);
  /// Logs out; the state is Idle when all has ended.
  void stop(Instant now);
  /// Answers connect(). The datamover's client from now on, until handle_lost().
  void handle_connected(Datamover& datamover, Instant now);
  void handle_connect_failed(std::string_view reason, Instant now);

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

  void handle_pdu(const ReceivedPdu& pdu, Instant now) override;
  void handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) override;
  void handle_lost(std::string_view reason, Instant now) override;

  [[nodiscard]] SessionState state() const { return state_; }
  /// Why the session is not Live.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::size_t under_way() const { return tasks_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const Parameters& agreed() const { return agreed_; }

 private:
  static constexpr unsigned kMaxRedirections = 8;  // policy
  /// A command that was sent.
  struct Task {
    InitiatorCommand* command{};
    std::uint32_t cmd_sn{};
    std::uint32_t data_in_count{};  // Data-In PDUs
    std::size_t received{};         // octets of data-in
    std::uint32_t next_r2t_sn{};
    Instant deadline{};
    bool aborting{};
  };
  struct Management {
    wire::iscsi::TaskManagementFunction function{};
    std::uint64_t lun{};
    std::uint32_t referenced_tag{wire::iscsi::kNoTag};
    std::uint32_t cmd_sn{};  // commands before it are meant
    Instant deadline{};
    ManagementHandler handler{};
  };
  struct Ended {
    InitiatorCommand* command{};
    InitiatorOutcome outcome{};
  };
  enum class Logout : std::uint8_t { None, Wanted, Sent };

  // initiator_session.cc
  void apply(SessionEvent event, std::string_view reason, Instant now);
  void perform(SessionAction action, Instant now);
  void connect(Instant now);
  void block(Instant now);
  void reset_connection();
  void drop(std::string_view reason);
  void end_waiting(InitiatorOutcome::Kind kind);
  void end_under_way(Instant now);
  void end_command(InitiatorCommand* command, InitiatorOutcome outcome);
  void tell_ended(Instant now);
  void handle_login(const ReceivedPdu& pdu, Instant now);
  void handle_full_feature(const ReceivedPdu& pdu, Instant now);
  void check_connection(Instant now);
  void check_commands(Instant now);

  // initiator_commands.cc
  void send_waiting(Instant now);
  [[nodiscard]] bool window_is_open() const;
  void send_command(InitiatorCommand& command, Instant now);
  void send_data(const Task& task, std::uint32_t tag, std::uint32_t transfer_tag,
                 std::size_t offset, std::size_t bytes);
  void handle_data_in(const ReceivedPdu& pdu);
  void handle_r2t(const ReceivedPdu& pdu);
  void handle_scsi_response(const ReceivedPdu& pdu);
  void finish(std::uint32_t tag, InitiatorOutcome outcome);

  // initiator_events.cc
  void handle_nop_in(const ReceivedPdu& pdu);
  void handle_async(const ReceivedPdu& pdu, Instant now);
  void handle_management_response(const ReceivedPdu& pdu, Instant now);
  void handle_text_response(const ReceivedPdu& pdu, Instant now);
  void send_management(Management management, Instant now);
  void send_ping(Instant now);
  void send_logout(Instant now);

  [[nodiscard]] std::uint32_t next_tag();
  template <class Header>
  [[nodiscard]] bool take_numbers(const Header& header, bool takes_stat_sn);

  InitiatorOptions options_;
  InitiatorEnvironment& environment_;
  SessionState state_{SessionState::Idle};
  std::string reason_;
  std::string address_;  // other than the options' while the target redirects
  bool redirected_{};
  unsigned redirections_{};  // since the last login
  Instant reconnect_deadline_{Instant::never()};
  Instant fast_fail_deadline_{Instant::never()};
  Instant dev_loss_deadline_{Instant::never()};

  // Of the connection.
  bool connecting_{};
  Datamover* datamover_{};
  bool dropped_{};  // terminated by this end; handle_lost() is awaited
  std::optional<InitiatorLogin> login_;
  Instant login_deadline_{Instant::never()};
  Parameters agreed_;
  Instant last_heard_;
  std::optional<Instant> ping_deadline_;
  std::uint32_t ping_tag_{wire::iscsi::kNoTag};
  Logout logout_{Logout::None};
  Instant logout_deadline_{Instant::never()};
  Duration wait_before_login_{};  // as the target has asked

  // Of the session.
  std::uint32_t cmd_sn_{1};
  std::uint32_t exp_cmd_sn_{1};
  std::uint32_t max_cmd_sn_{1};
  std::uint32_t exp_stat_sn_{};
  std::uint32_t next_tag_{1};
  std::map<std::uint32_t, Task> tasks_;  // by ITT
  std::deque<InitiatorCommand*> waiting_;
  std::map<std::uint32_t, Management> managements_;  // by ITT
  std::uint32_t text_tag_{wire::iscsi::kNoTag};
  std::string text_;
  TextHandler text_handler_;
  std::vector<Ended> ended_;  // to be told
  bool telling_{};
};

/// False if the target's numbers break the rules, after which the session is lost.
template <class Header>
bool InitiatorSession::take_numbers(const Header& header, bool takes_stat_sn) {
  // RFC 7143 §4.2.2.1: a window that cannot be is ignored.
  if (!serial_before(header.max_cmd_sn, header.exp_cmd_sn - 1)) {
    if (serial_before(max_cmd_sn_, header.max_cmd_sn)) {
      max_cmd_sn_ = header.max_cmd_sn;
    }
    if (serial_before(exp_cmd_sn_, header.exp_cmd_sn)) {
      exp_cmd_sn_ = header.exp_cmd_sn;
    }
  }
  if (!takes_stat_sn) {
    return true;
  }
  if (header.stat_sn != exp_stat_sn_) {
    drop("a status is missing: StatSN is not the next");
    return false;
  }
  ++exp_stat_sn_;
  return true;
}

}  // namespace weft::iscsi
