#pragma once

// What an initiator's session is told, what it asks of its driver, and its commands.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "iscsi/chap.h"
#include "iscsi/initiator_state.h"
#include "iscsi/parameters.h"
#include "iscsi/pdu.h"
#include "wire/iscsi/scsi_command.h"

namespace weft::iscsi {

/// The policies of an initiator: one connection, error recovery level 0. More of either is as good.
[[nodiscard]] inline Preferences initiator_preferences() {
  Preferences preferences;
  preferences.values.max_connections = 1;
  preferences.values.max_outstanding_r2t = 4;
  preferences.values.error_recovery_level = 0;
  preferences.values.protocol_level = 1;
  return preferences;
}

struct InitiatorOptions {
  std::string name{};                    ///< iSCSI Name of this end
  std::string target{};                  ///< of the other; empty: a discovery session
  std::string address{};                 ///< HOST:PORT, for the driver; a target may redirect
  std::uint64_t isid{0x8000'0000'0000};  ///< format "random" (RFC 7143 §11.12.5), 48 bits
  Preferences preferences{initiator_preferences()};
  ChapPolicy chap{};
  std::size_t max_commands{1024};                      // policy, as all that follows: under way
  Duration login_timeout{Duration::seconds(15)};       ///< from connect() on
  Duration reconnect_delay{Duration::seconds(2)};      ///< at least DefaultTime2Wait
  Duration fast_fail{Duration::seconds(30)};           ///< from the loss on
  Duration dev_loss{Duration::seconds(600)};           ///< from the loss on
  Duration command_timeout{Duration::seconds(30)};     ///< then the command is aborted
  Duration management_timeout{Duration::seconds(10)};  ///< then the connection is dropped
  Duration ping_interval{Duration::seconds(10)};       ///< without a word of the target
  Duration ping_timeout{Duration::seconds(10)};
  /// Level 1 and up: a connection with commands under way is asked for what was lost after so long
  /// a silence.
  Duration recovery_interval{Duration::seconds(2)};
  Duration logout_timeout{Duration::seconds(5)};
};

/// What error recovery has done for a session.
struct RecoveryCounts {
  std::uint64_t snacks{};            ///< requests for lost data and statuses
  std::uint64_t commands_resent{};   ///< with their CmdSN, for they had not come
  std::uint64_t tasks_reassigned{};  ///< to another connection
};

/// How a command ended.
struct InitiatorOutcome {
  enum class Kind : std::uint8_t {
    Answered,     ///< with a status
    Aborted,      ///< by abort(), a reset or a timeout: executed in part, perhaps
    Interrupted,  ///< the session was lost: executed, perhaps
    NotSent,      ///< the session fails fast, is lost or has ended
  };
  Kind kind{};
  std::uint8_t status{};           // SAM-5 §5.3.1
  std::vector<std::byte> sense{};  ///< without its length
  std::size_t data_in_bytes{};     ///< that have come, from the start of the buffer
  std::int64_t residual{};         ///< positive: underflow; negative: overflow

  [[nodiscard]] bool is_good() const { return kind == Kind::Answered && status == 0; }
};

struct InitiatorCommand;

class InitiatorClient {
 public:
  /// Exactly once for each command; the command is the client's again. May submit others.
  virtual void handle_outcome(InitiatorCommand& command, const InitiatorOutcome& outcome,
                              Instant now) = 0;

 protected:
  ~InitiatorClient() = default;
};

/// One command. Belongs to the client, and stays until its outcome. Data of one direction at most.
struct InitiatorCommand {
  std::uint64_t lun{};
  std::vector<std::byte> cdb{};  ///< up to 260 octets; those beyond 16 go into an additional header
  wire::iscsi::TaskAttributeCode attribute{wire::iscsi::TaskAttributeCode::Simple};
  SharedBuffer data_out{};  ///< must not change until the outcome
  SharedBuffer data_in{};
  InitiatorClient* client{};
};

/// What the driver of a session does for it.
class InitiatorEnvironment {
 public:
  /// Make connection `cid` of the session, then call handle_connected() or handle_connect_failed();
  /// not from inside. CIDs count from 0.
  virtual void connect(std::uint16_t cid, std::string_view address) = 0;
  /// The connection that connect() asked for is not wanted any more.
  virtual void cancel_connect(std::uint16_t cid) = 0;
  /// May not call back.
  virtual void handle_state(SessionState state, std::string_view reason) = 0;
  /// Sense data that the target has sent unasked (RFC 7143 §11.9). May not call back.
  virtual void handle_scsi_event(std::uint64_t lun, ByteSpan sense) = 0;
  [[nodiscard]] virtual ChapLibrary& chap_library() = 0;

 protected:
  ~InitiatorEnvironment() = default;
};

}  // namespace weft::iscsi
