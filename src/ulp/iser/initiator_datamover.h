#pragma once

// The initiator half of iSER as a datamover for src/iscsi: commands become tasks of a connection,
// whose memory the target reads and writes (RFC 7145 §7.3, RFC 5047 §8). The connection comes and
// goes by the calls of open-iscsi's transport (initiator.h). One thread: that of the environment's
// work.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "iscsi/datamover.h"
#include "ulp/iser/session_binding.h"

namespace weft::iser {

/// One connection of a session: an endpoint that is bound to the session's connection once it is
/// up. Destroyed when it has gone, or before it was begun.
class InitiatorDatamover final : public iscsi::Datamover, private iscsi::DatamoverClient {
 public:
  /// The connection is up and bound, or could not be made: a reason. From work of its own.
  using Connected = std::function<void(const std::string& reason)>;

  /// `handle_gone` is called once, from work of its own: after the client's handle_lost(), after
  /// `connected` had a reason, or after abandon(). The datamover may be freed when it has returned,
  /// and `binding` takes another.
  InitiatorDatamover(core::Environment& environment, SessionBinding& binding,
                     const ConnectionOptions& options, std::function<void()> handle_gone);
  ~InitiatorDatamover();

  /// Before connect(); outlives handle_lost().
  void set_client(iscsi::DatamoverClient& client) { client_ = &client; }
  /// Begins to connect (ep_connect). A refusal ends nothing: the datamover was not used.
  Result<void> connect(std::string_view address, Connected connected);
  /// The client hears nothing any more.
  void abandon();

  // --- Datamover
  void limit(iscsi::Preferences& preferences) const override;
  [[nodiscard]] bool moves_data() const override { return true; }
  void send_command(iscsi::OutgoingPdu pdu, iscsi::SharedBuffer data_out,
                    iscsi::SharedBuffer data_in) override;
  [[nodiscard]] bool agree(const iscsi::Parameters& agreed) override;
  void send_control(iscsi::OutgoingPdu pdu) override;
  /// A target's.
  void put_data(iscsi::OutgoingPdu data_in) override;
  void get_data(iscsi::OutgoingPdu r2t, MutableByteSpan into) override;
  void enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) override;
  void terminate(Ending ending, std::string_view reason) override;

  /// Commands that have no response yet.
  [[nodiscard]] std::size_t tasks() const { return tasks_.size(); }

 private:
  struct Command {
    Task task;
    iscsi::SharedBuffer data_out;
    iscsi::SharedBuffer data_in;
  };
  void handle_pdu(const iscsi::ReceivedPdu& pdu, Instant now) override;
  void handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) override;
  void handle_agreed(Instant now) override;
  void handle_lost(std::string_view reason, Instant now) override;
  void tell_connected(const std::string& reason);
  void take_answer();
  void flush();
  void disconnect(std::string_view reason);
  void go();

  SessionBinding& binding_;
  const ConnectionOptions options_;
  std::function<void()> handle_gone_;
  iscsi::DatamoverClient* client_{};
  Connected connected_;
  EndpointId endpoint_{};
  Connection* connection_{};  // bound, and not lost yet
  bool is_bound_{};           // and not stopped yet
  StopFlag stop_flag_{StopFlag::Recover};
  /// In order; what the connection has no room for yet.
  std::deque<std::variant<iscsi::OutgoingPdu, Command*>> waiting_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Command>> tasks_;  // by Initiator Task Tag
  bool is_flushing_{};
  core::Work answer_work_;
  core::Work gone_work_;
};

}  // namespace weft::iser
