#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "mad/agent_table.h"
#include "mad/exchange.h"
#include "mad/limits.h"
#include "mad/mad_address.h"
#include "mad/mad_message.h"
#include "mad/pacer.h"

namespace weft::mad {

class ManagementInterface;

/// An answer that an agent gives later.
struct Deferral {
  ExchangeKey key{};
  MadAddress to{};
};

/// A request in its agent's hands.
class MadRequest {
 public:
  const MadAddress source;
  /// As it was received. The agent may make the answer of it: its status is ok already, and the
  /// interface makes the method that of the answer (R-MI-6, R-MI-7).
  MadMessage message;
  const Instant now;

  /// The agent answers later, by ManagementInterface::respond; until then the same request is not
  /// delivered again. Refused when too many are being served: the agent then answers with BUSY.
  [[nodiscard]] std::optional<Deferral> defer();

 private:
  friend class ManagementInterface;
  MadRequest(ManagementInterface& interface, const ExchangeKey& key, const MadAddress& from,
             MadMessage request, Instant at)
      : source(from), message(std::move(request)), now(at), interface_(interface), key_(key) {}

  ManagementInterface& interface_;
  ExchangeKey key_{};
};

/// What answers for a class: an SMA, PMA, SA, CM.
class MadHandler {
 public:
  MadHandler() = default;
  virtual ~MadHandler() = default;
  MadHandler(const MadHandler&) = delete;
  MadHandler& operator=(const MadHandler&) = delete;

  /// The MAD to answer with, which may be `&request.message`, or null for none. There is no other
  /// status: what went wrong stands in the MAD (R-MI-6, R-MI-7).
  virtual const MadMessage* handle(MadRequest& request) = 0;

  /// A segment that belongs to no open transaction, of an agent that handles them itself.
  virtual void handle_segment(const MadAddress& source, const MadBytes& segment);
};

/// The management interface of a port on QP0 or QP1 (R-MI-1): agents answer what comes, users ask
/// with retransmission, both with messages of any size by RMPP. Pure: MADs and time in, MADs,
/// completions and the next deadline out. One thread, or a lock around it; handlers are called from
/// inside and may call it, but not destroy it.
class ManagementInterface {
 public:
  explicit ManagementInterface(InterfaceKind kind, const Limits& limits = {});
  /// Completes every transaction with Cancelled.
  ~ManagementInterface();
  ManagementInterface(const ManagementInterface&) = delete;
  ManagementInterface& operator=(const ManagementInterface&) = delete;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  [[nodiscard]] Result<AgentId> register_agent(Registration registration, MadHandler* handler);
  /// Completes the agent's transactions with Cancelled.
  [[nodiscard]] Result<void> unregister_agent(AgentId agent, Instant now);

  /// Where requests go that name no address: the subnet manager's port (R-MI-2).
  void set_subnet_manager(Lid lid, ServiceLevel sl);
  [[nodiscard]] MadAddress subnet_manager() const { return subnet_manager_; }

  /// Sends a request until it is answered. The interface chooses the TID, with the agent in its
  /// high half. The handler is called once, never from inside this call.
  [[nodiscard]] Result<TransactionId> send(AgentId agent, const MadAddress& to, MadMessage request,
                                           const TransactionOptions& options,
                                           CompletionHandler handler, Instant now);
  /// Ends a transaction with Cancelled now.
  [[nodiscard]] Result<void> cancel(TransactionId transaction, Instant now);
  /// Waits so long from now on for the answer, as a CM does that was told to (MRA).
  [[nodiscard]] Result<void> set_timeout(TransactionId transaction, Duration timeout, Instant now);

  /// Sends a message that is neither repeated nor answered here; or, of an answer, one of any size.
  [[nodiscard]] Result<void> post(AgentId agent, const MadAddress& to, MadMessage message,
                                  Instant now);
  /// Answers a request that was deferred; NotFound when it took too long.
  [[nodiscard]] Result<void> respond(const Deferral& deferral, MadMessage answer, Instant now);

  /// A packet's payload from the QP. Anything may come.
  void handle_mad(const MadAddress& source, ByteSpan bytes, Instant now);
  void handle_timeout(Instant now);

  /// The next MAD to send; none when there is none, or the rate limit wants a pause.
  [[nodiscard]] std::optional<MadPacket> poll_transmit(Instant now);
  /// When handle_timeout and poll_transmit are due again.
  [[nodiscard]] Instant deadline() const;

  /// Sees every MAD as it comes and goes; empty for nobody. It must not call the interface.
  enum class Way : std::uint8_t { Received, Sent };
  using Snooper = std::function<void(Way, const MadAddress&, ByteSpan)>;
  [[nodiscard]] std::uint32_t add_snooper(Snooper snooper);
  void remove_snooper(std::uint32_t snooper) { snoopers_.erase(snooper); }

  [[nodiscard]] std::size_t transactions() const { return key_of_.size(); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  /// Aborts when its parts contradict each other.
  void check_invariants() const;

 private:
  friend class MadRequest;
  using Phase = Exchange::Phase;
  using Exchanges = std::map<ExchangeKey, Exchange>;
  using Place = Exchanges::iterator;

  // management_interface.cc
  void transmit(const MadAddress& to, const MadBytes& mad);
  void arm(Place place, Instant deadline);
  void erase(Place place);
  [[nodiscard]] bool can_serve(const ExchangeKey& key, std::size_t answer_bytes = 0);
  [[nodiscard]] bool is_within_share(const ExchangeKey& key, std::size_t answer_bytes) const;
  void snoop(Way way, const MadAddress& address, ByteSpan bytes) const;
  void expire(Place place, Instant now);

  // transactions.cc
  [[nodiscard]] Result<void> check_request(AgentId agent, const MadMessage& message) const;
  void start(Place place, Instant now);
  void start_waiting(Instant now);
  void ask(Place place, Instant now);
  void retry_or_give_up(Place place, Instant now);
  void complete(Place place, Completion completion, Instant now);
  [[nodiscard]] Duration patience(const Exchange& exchange) const;
  [[nodiscard]] bool redirect(Place place, const MadMessage& answer, Instant now);

  // receive.cc
  void handle_request(const MadAddress& source, const MadBytes& mad, Instant now);
  void handle_answer(const MadAddress& source, const MadBytes& mad, Instant now);
  void deliver(MadHandler& handler, const ExchangeKey& key, const MadAddress& source,
               MadMessage request, Instant now);
  void answer(const ExchangeKey& key, const MadAddress& to, MadMessage message, Instant now);
  void refuse(const MadAddress& source, const MadBytes& mad, std::uint16_t status);
  [[nodiscard]] bool hand_over_segment(const MadAddress& source, const MadBytes& mad, Instant now);
  [[nodiscard]] MadHandler* handler_for(const MadAddress& source, const MadBytes& mad);
  [[nodiscard]] Place find(const MadAddress& source, const wire::MadHeader& header);

  // rmpp_exchange.cc
  void handle_rmpp(const MadAddress& source, const MadBytes& mad, Instant now);
  void handle_data(const MadAddress& source, const MadBytes& mad, Instant now);
  void take_data(Place place, const MadBytes& mad, Instant now);
  void handle_ack(Place place, const MadBytes& mad, Instant now);
  void end_by_us(Place place, const MadBytes& mad, wire::RmppStatus status, Instant now);
  void end_by_peer(Place place, wire::RmppStatus status, Instant now);
  void end(Place place, wire::RmppStatus status, Instant now);
  void start_sending(Place place, MadMessage message, Instant now);
  void send_segments(Place place, Instant now);
  void sender_failed(Place place, Instant now);
  void reply(const MadAddress& to, const MadBytes& mad, const wire::Rmpp& rmpp);
  [[nodiscard]] RmppReceiver make_receiver(wire::ManagementClass mgmt_class, Instant now) const;
  [[nodiscard]] Place serve(const ExchangeKey& key, const MadAddress& peer);

  InterfaceKind kind_;
  Limits limits_;
  Counters counters_;
  AgentTable agents_;
  MadAddress subnet_manager_{};
  Exchanges exchanges_;
  std::map<TransactionId, ExchangeKey> key_of_;          // of transactions that are not complete
  std::set<std::pair<Instant, ExchangeKey>> deadlines_;  // of exchanges that have one
  std::deque<TransactionId> waiting_;
  std::deque<MadPacket> out_;
  std::map<std::uint32_t, Snooper> snoopers_;
  Pacer pacer_;
  std::size_t receiving_bytes_{};  // held by all receivers
  std::size_t in_flight_{};
  std::size_t served_{};
  std::size_t lingering_{};  // of clients
  std::uint64_t last_transaction_{};
  std::uint32_t last_tid_{};
  std::uint32_t last_snooper_{};
  bool is_closing_{};
};

}  // namespace weft::mad
