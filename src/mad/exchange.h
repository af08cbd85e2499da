#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/identifiers.h"
#include "base/strong.h"
#include "base/time.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "mad/mad_message.h"
#include "mad/rmpp_receiver.h"
#include "mad/rmpp_sender.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// Identifies a transaction of one interface. Never reused.
using TransactionId = Ordered<struct TransactionIdTag, std::uint64_t>;

/// How a transaction ended.
enum class TransactionStatus : std::uint8_t {
  Answered,    ///< with any status: the caller checks whether the request succeeded (R-MI-4)
  Sent,        ///< no response was expected, and all segments were acknowledged
  TimedOut,    ///< -ETIMEDOUT
  Cancelled,   ///< -ECANCELED
  RmppFailed,  ///< RMPP was terminated by one side; see `rmpp_status`
};

/// Reports the end of a transaction, exactly once.
struct Completion {
  TransactionId transaction{};
  TransactionStatus status{};
  const MadMessage* answer{};  ///< set if Answered; valid during the call only
  MadAddress source{};         ///< of the response
  unsigned sends{};            ///< number of times that the request was sent
  wire::RmppStatus rmpp_status{};
  Instant now{};
};
using CompletionHandler = std::function<void(const Completion&)>;

/// How a transaction is retried and completed.
struct TransactionOptions {
  Duration timeout{Duration::seconds(1)};  ///< until the first retry; doubled for each further one
  unsigned retries{3};
  bool doubles_timeout{true};
  bool follows_redirects{true};
  bool waits_when_busy{true};  ///< retry after BUSY; otherwise BUSY is returned as the response
  /// if false, the request must be RMPP and completes with the last ACK
  bool expects_answer{true};
  std::optional<std::uint32_t> tid_low{};  ///< lower half of the TID, if the caller chooses it
};

/// Which side sent the request: Client is this side.
enum class Side : std::uint8_t { Client, Server };

/// Identifies an exchange: TID, class, peer, and which side sent the request. The peer is
/// identified by its GID if there is a GRH, else by its LID; by neither if the request used a
/// directed route or the permissive LID.
struct ExchangeKey {
  Side side{};
  std::uint64_t transaction_id{};
  wire::ManagementClass mgmt_class{};
  Lid lid{};
  Gid gid{};
  friend constexpr auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
};

/// Key of a received MAD.
[[nodiscard]] inline ExchangeKey key_of_received(const MadAddress& source,
                                                 const wire::MadHeader& header) {
  return {.side = is_answer(header) ? Side::Client : Side::Server,
          .transaction_id = header.transaction_id,
          .mgmt_class = header.mgmt_class,
          .lid = source.global ? Lid{} : source.lid,
          .gid = source.global ? source.global->dgid : Gid{}};
}

/// State of one exchange, from the request until the response is complete.
struct Exchange {
  enum class Phase : std::uint8_t {
    Waiting,    ///< client: queued, too many are in flight
    Sending,    ///< sending RMPP segments
    Asked,      ///< client: waiting for the response
    Receiving,  ///< receiving RMPP segments
    Deferred,   ///< server: the agent responds later
    Lingering,  ///< complete; still acknowledges retransmissions of the last segment
  };

  Phase phase{};
  MadAddress peer{};
  Instant deadline{Instant::never()};
  std::optional<RmppSender> sender{};
  std::optional<RmppReceiver> receiver{};

  // Client only:
  TransactionId transaction{};
  AgentId agent{};
  MadMessage request{};
  TransactionOptions options{};
  CompletionHandler handler{};
  unsigned sends{};
  unsigned redirects{};
};

}  // namespace weft::mad
