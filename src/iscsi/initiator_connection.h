#pragma once

// One connection of an initiator's session (RFC 7143 §4.1): what is its own. The session acts on
// it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "iscsi/datamover.h"
#include "iscsi/initiator_login.h"
#include "iscsi/parameters.h"
#include "iscsi/status_numbers.h"
#include "wire/iscsi/opcode.h"

namespace weft::iscsi {

class InitiatorSession;

/// Belongs to its session, and to its thread.
struct InitiatorConnection final : public DatamoverClient {
  enum class Phase : std::uint8_t {
    Down,
    Connecting,  ///< the driver has been asked
    LoggingIn,
    Up,  ///< in the full feature phase
  };
  /// Level 2: the tasks of a connection that was lost wait for another allegiance (RFC 7143
  /// §7.2.2).
  struct Recovery {
    Instant due{};                ///< a logout "for recovery" is to be sent: Time2Wait is over
    Instant until{};              ///< Time2Retain is over: they are lost
    std::uint32_t exp_stat_sn{};  ///< the last of the lost connection, which it acknowledges
    std::uint32_t logout_tag{wire::iscsi::kNoTag};  ///< of the last one that was sent
  };

  InitiatorConnection(InitiatorSession& owner, std::uint16_t number)
      : session(owner), cid(number) {}

  void handle_pdu(const ReceivedPdu& pdu, Instant now) override;
  void handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) override;
  void handle_agreed(Instant now) override;
  void handle_lost(std::string_view reason, Instant now) override;

  /// What may be sent goes.
  [[nodiscard]] bool is_up() const { return phase == Phase::Up && !dropped; }
  /// Down, and with nothing of the connection that was; `recovery` and `retry_at` stay.
  void reset();

  InitiatorSession& session;
  const std::uint16_t cid;
  Phase phase{};
  Datamover* datamover{};
  bool dropped{};        // terminated by this end; handle_lost() is awaited
  std::string reason{};  // why
  std::optional<InitiatorLogin> login{};
  Instant login_deadline{Instant::never()};
  Parameters agreed{};
  StatusNumbers statuses{};
  std::size_t tasks{};  // allegiant to it
  Instant last_heard{};
  std::optional<Instant> ping_deadline{};
  std::uint32_t ping_tag{wire::iscsi::kNoTag};
  std::uint32_t ping_cmd_sn{};  // commands before it were sent before the ping

  // While it is down.
  Instant retry_at{Instant::never()};
  std::optional<Recovery> recovery{};
};

}  // namespace weft::iscsi
