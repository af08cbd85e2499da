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

using TransactionId = Ordered<struct TransactionIdTag, std::uint64_t>;

enum class TransactionStatus : std::uint8_t {
  Answered,    ///< the answer may say that the request failed: that is the user's to read (R-MI-4)
  Sent,        ///< no answer was expected, and all segments were acknowledged
  TimedOut,    ///< -ETIMEDOUT
  Cancelled,   ///< -ECANCELED
  RmppFailed,  ///< one side gave the segments up; `rmpp_status` says why
};

/// How a transaction ended. It ends once, and its user is told once.
struct Completion {
  TransactionId transaction{};
  TransactionStatus status{};
  const MadMessage* answer{};  ///< when Answered; valid during the call
  MadAddress source{};         ///< of the answer
  unsigned sends{};            ///< of the request: 1 and the retries
  wire::RmppStatus rmpp_status{};
  Instant now{};
};
using CompletionHandler = std::function<void(const Completion&)>;

struct TransactionOptions {
  Duration timeout{Duration::seconds(1)};  ///< for the first answer; doubled for each retry
  unsigned retries{3};
  bool doubles_timeout{true};
  bool follows_redirects{true};
  bool waits_when_busy{true};  ///< and asks again; otherwise the user reads that answer, too
  bool expects_answer{true};   ///< without one it must be RMPP, and ends with the last ACK
  std::optional<std::uint32_t> tid_low{};  ///< for users that choose the low half of their TIDs
};

/// Who asked: this side, or the other.
enum class Side : std::uint8_t { Client, Server };

/// What MADs of one exchange have in common: TID, class, the other side
/// and who asked. The other side is known by its GID when there is a GRH, else by its LID; by
/// neither when a request was directed or to the permissive LID.
struct ExchangeKey {
  Side side{};
  std::uint64_t transaction_id{};
  wire::ManagementClass mgmt_class{};
  Lid lid{};
  Gid gid{};
  friend constexpr auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
};

/// Of a MAD that came in.
[[nodiscard]] inline ExchangeKey key_of_received(const MadAddress& source,
                                                 const wire::MadHeader& header) {
  return {.side = is_answer(header) ? Side::Client : Side::Server,
          .transaction_id = header.transaction_id,
          .mgmt_class = header.mgmt_class,
          .lid = source.global ? Lid{} : source.lid,
          .gid = source.global ? source.global->gid : Gid{}};
}

/// A request with all that belongs to it, until its answer was had or given.
struct Exchange {
  enum class Phase : std::uint8_t {
    Waiting,    ///< client: too many are in flight
    Sending,    ///< segments go out
    Asked,      ///< client: the answer is awaited
    Receiving,  ///< segments come in
    Deferred,   ///< server: the agent answers later
    Lingering,  ///< over; a last segment that comes again is still acknowledged
  };

  Phase phase{};
  MadAddress peer{};
  Instant deadline{Instant::never()};
  std::optional<RmppSender> sender{};
  std::optional<RmppReceiver> receiver{};

  // Of a client:
  TransactionId transaction{};
  AgentId agent{};
  MadMessage request{};
  TransactionOptions options{};
  CompletionHandler handler{};
  unsigned sends{};
  unsigned redirects{};
};

}  // namespace weft::mad
