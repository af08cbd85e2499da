#pragma once

// One connection of the target side: login, then the full feature phase (RFC 7143 §4.2, §6, §11).

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "iscsi/chap.h"
#include "iscsi/data_in_plan.h"
#include "iscsi/datamover.h"
#include "iscsi/negotiation.h"
#include "iscsi/target_options.h"
#include "iscsi/target_session.h"
#include "wire/iscsi/async_message.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/login.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/snack.h"
#include "wire/iscsi/task_management.h"
#include "wire/iscsi/text.h"

namespace weft::iscsi {

class TargetServer;

/// A login that is under way.
struct LoginProgress {
  bool begun{};
  wire::iscsi::LoginStage stage{};
  std::uint64_t isid{};
  std::uint16_t tsih{};
  std::string text;  // of a request so far
  std::string initiator;
  std::string target;
  bool is_discovery{};
  bool is_secure{};  // authentication has ended, or is not wanted
  bool has_declared{};
  std::optional<ChapTarget> chap;
  ChapPolicy policy;
  std::optional<Negotiation> negotiation;
  std::uint32_t requests{};
  std::uint32_t exp_stat_sn{};  // of the first: that of the connection which it restarts
};

/// A request, or its answer, that takes several Text PDUs.
struct TextExchange {
  std::string request;
  std::string response;
  std::uint32_t transfer_tag{wire::iscsi::kNoTag};
};

/// The server's thread. Belongs to the server, until the datamover says that it is lost.
class TargetConnection final : public DatamoverClient {
 public:
  TargetConnection(TargetServer& server, Datamover& datamover, Instant now);
  ~TargetConnection();

  void handle_pdu(const ReceivedPdu& pdu, Instant now) override;
  void handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) override;
  void handle_protection_error(std::uint32_t initiator_task_tag,
                               const scsi::ProtectionError& error) override;
  void handle_data_put(std::uint32_t initiator_task_tag, Instant now) override;
  void handle_lost(std::string_view reason, Instant now) override;

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// A non-immediate request in its turn.
  void perform(const HeldRequest& request, Instant now);
  /// Sends data and status of a task that has ended.
  void answer(const std::shared_ptr<TargetTask>& task, Instant now);
  /// The status of a task alone.
  void send_scsi_response(const std::shared_ptr<TargetTask>& task, Instant now);
  void send_management_response(std::uint32_t tag, wire::iscsi::TaskManagementOutcome outcome);
  void send_async(wire::iscsi::AsyncEvent event, std::uint16_t parameter1, std::uint16_t parameter2,
                  std::uint16_t parameter3);
  /// Leaves its session and ends.
  void end(Datamover::Ending ending, std::string_view reason, bool recovers, Instant now);

  [[nodiscard]] TargetSession* session() const { return session_; }
  [[nodiscard]] std::uint16_t cid() const { return cid_; }
  [[nodiscard]] bool is_logging_in() const { return phase_ == Phase::Login; }

 private:
  enum class Phase : std::uint8_t { Login, FullFeature, Closed };
  /// A status that the initiator has not acknowledged (level 1 and up).
  struct SentStatus {
    std::uint32_t stat_sn{};
    OutgoingPdu pdu;
    std::shared_ptr<TargetTask> task;
  };

  // Login (target_login.cc).
  void handle_login(const ReceivedPdu& pdu, Instant now);
  [[nodiscard]] wire::iscsi::LoginStatus take_login(const wire::iscsi::LoginRequest& request,
                                                    wire::iscsi::LoginResponse& response,
                                                    TextWriter& answers, Instant now);
  [[nodiscard]] wire::iscsi::LoginStatus begin_login(const wire::iscsi::LoginRequest& request,
                                                     const TextPairs& pairs);
  [[nodiscard]] wire::iscsi::LoginStatus take_security(const TextPairs& pairs, TextWriter& answers);
  [[nodiscard]] wire::iscsi::LoginStatus take_operational(const TextPairs& pairs,
                                                          TextWriter& answers);
  [[nodiscard]] bool may_leave(wire::iscsi::LoginStage stage) const;
  [[nodiscard]] wire::iscsi::LoginStatus enter_full_feature(
      const wire::iscsi::LoginRequest& request, wire::iscsi::LoginResponse& response, Instant now);
  [[nodiscard]] wire::iscsi::LoginStatus create_session(const wire::iscsi::LoginRequest& request,
                                                        Instant now);
  [[nodiscard]] wire::iscsi::LoginStatus join_session(const wire::iscsi::LoginRequest& request,
                                                      Instant now);
  void refuse_login(wire::iscsi::LoginResponse& response, wire::iscsi::LoginStatus status,
                    Instant now);

  // Requests of the full feature phase (target_connection.cc).
  void handle_full_feature(const ReceivedPdu& pdu, Instant now);
  void take_in_order(const ReceivedPdu& pdu, std::uint32_t cmd_sn, Instant now);
  [[nodiscard]] bool is_of_lost_connection(const ReceivedPdu& pdu) const;
  void handle_nop_out(const HeldRequest& request);
  void handle_logout(const HeldRequest& request, Instant now);
  void take_acknowledgement(std::uint32_t exp_stat_sn);

  // Text (target_text.cc).
  void handle_text(const HeldRequest& request, Instant now);
  [[nodiscard]] bool add_targets(std::string_view value, TextWriter& answers) const;
  void send_text_part(std::uint32_t tag);

  // Commands and their data (target_commands.cc).
  void handle_command(const ReceivedPdu& pdu, Instant now);
  [[nodiscard]] bool take_additional_headers(const ReceivedPdu& pdu, TargetTask& task) const;
  void begin_data(TargetTask& task, const ReceivedPdu& pdu) const;
  void choose_protection(TargetTask& task, const ReceivedPdu& pdu) const;
  [[nodiscard]] std::shared_ptr<TargetTask> find_protected(std::uint32_t tag) const;
  void put_protected(TargetTask& task);
  void handle_data_out(const ReceivedPdu& pdu, Instant now);
  void request_data(const std::shared_ptr<TargetTask>& task, Instant now);
  void send_r2t(const TargetTask& task, const DataRequest& wanted);
  void send_data_in(TargetTask& task, std::uint32_t begin, std::uint32_t count);

  // Task management (target_management.cc).
  void handle_management(const wire::iscsi::TaskManagementRequest& request, Instant now);
  void abort_task(const wire::iscsi::TaskManagementRequest& request, Instant now);
  void manage(const wire::iscsi::TaskManagementRequest& request, scsi::TaskManagement function,
              Instant now);
  void reassign_task(const wire::iscsi::TaskManagementRequest& request, Instant now);

  // Recovery (target_recovery.cc).
  void handle_snack(const ReceivedPdu& pdu, Instant now);
  [[nodiscard]] bool resend_data(const wire::iscsi::SnackRequest& request);
  [[nodiscard]] bool resend_status(const wire::iscsi::SnackRequest& request);

  void fail_connection(std::string_view reason, Instant now);
  void reject(const ReceivedPdu& pdu, wire::iscsi::RejectReason reason);
  // Sends a PDU that takes a StatSN.
  template <class Header>
  std::uint32_t send_status(Header header, std::vector<std::byte> data,
                            std::shared_ptr<TargetTask> task);
  // StatSN that is next, ExpCmdSN and MaxCmdSN.
  template <class Header>
  void number(Header& header) const;
  [[nodiscard]] std::uint32_t recovery_level() const;

  TargetServer& server_;
  Datamover& datamover_;
  Preferences preferences_;
  Phase phase_{Phase::Login};
  TargetSession* session_{};
  std::uint16_t cid_{};
  std::uint32_t stat_sn_{1};
  Parameters parameters_;  // of the connection, when login is over
  Instant last_heard_;
  Instant login_deadline_;
  std::optional<Instant> ping_deadline_;
  std::uint32_t ping_tag_{wire::iscsi::kNoTag};
  std::deque<SentStatus> sent_;

  std::optional<LoginProgress> login_;

  TextExchange text_;
};

template <class Header>
void TargetConnection::number(Header& header) const {
  header.stat_sn = stat_sn_;
  if (session_ != nullptr) {
    header.exp_cmd_sn = session_->exp_cmd_sn();
    header.max_cmd_sn = session_->max_cmd_sn();
  }
}

template <class Header>
std::uint32_t TargetConnection::send_status(Header header, std::vector<std::byte> data,
                                            std::shared_ptr<TargetTask> task) {
  number(header);
  OutgoingPdu pdu{header, std::move(data)};
  if (recovery_level() > 0) {
    sent_.push_back({.stat_sn = stat_sn_, .pdu = pdu, .task = std::move(task)});
  }
  datamover_.send_control(std::move(pdu));
  return stat_sn_++;
}

}  // namespace weft::iscsi
