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

/// Handle for a response that an agent sends later.
struct Deferral {
  ExchangeKey key{};
  MadAddress to{};
};

/// A request that is being processed by its agent.
class MadRequest {
 public:
  const MadAddress source;
  /// The request as received. The agent may edit it into the response: the status is already set to
  /// success, and the interface sets the response method (R-MI-6, R-MI-7).
  MadMessage message;
  const Instant now;

  /// Defers the response to ManagementInterface::respond; until then duplicates of the request are
  /// dropped. Fails if too many exchanges are being served; the agent should then respond BUSY.
  [[nodiscard]] std::optional<Deferral> defer();

 private:
  friend class ManagementInterface;
  MadRequest(ManagementInterface& interface, const ExchangeKey& key, const MadAddress& from,
             MadMessage request, Instant at)
      : source(from), message(std::move(request)), now(at), interface_(interface), key_(key) {}

  ManagementInterface& interface_;
  ExchangeKey key_{};
};

/// An agent's request handler, for example that of an SMA, PMA, SA or CM.
class MadHandler {
 public:
  MadHandler() = default;
  virtual ~MadHandler() = default;
  MadHandler(const MadHandler&) = delete;
  MadHandler& operator=(const MadHandler&) = delete;

  /// Returns the response, which may be `&request.message`, or null for none. Errors are reported
  /// in the response's status only (R-MI-6, R-MI-7).
  virtual const MadMessage* handle(MadRequest& request) = 0;

  /// A segment outside any transaction, for an agent that implements RMPP itself.
  virtual void handle_segment(const MadAddress& source, const MadBytes& segment);
};

/// The management interface of a port on QP0 or QP1 (R-MI-1): delivers requests to agents, and
/// sends requests with retransmission; both with messages of any size by RMPP (IBTA vol 1 §13.6).
/// Pure: MADs and time go in; MADs, completions and the next deadline come out. Not thread-safe.
/// Handlers are called from inside its members; they may call it, but must not destroy it.
class ManagementInterface {
 public:
  explicit ManagementInterface(InterfaceKind kind, const Limits& limits = {});
  /// Completes all transactions with Cancelled.
  ~ManagementInterface();
  ManagementInterface(const ManagementInterface&) = delete;
  ManagementInterface& operator=(const ManagementInterface&) = delete;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// Adds an agent; see AgentTable::add.
  [[nodiscard]] Result<AgentId> register_agent(Registration registration, MadHandler* handler);
  /// Completes the agent's transactions with Cancelled.
  [[nodiscard]] Result<void> unregister_agent(AgentId agent, Instant now);

  /// Sets the default destination of requests: the port of the subnet manager (R-MI-2).
  void set_subnet_manager(Lid lid, ServiceLevel sl);
  [[nodiscard]] MadAddress subnet_manager() const { return subnet_manager_; }

  /// Sends a request until it is answered or its retries are exhausted. The interface assigns the
  /// TID, with the agent in its upper half. `handler` is called once, and never from inside this
  /// call.
  [[nodiscard]] Result<TransactionId> send(AgentId agent, const MadAddress& to, MadMessage request,
                                           const TransactionOptions& options,
                                           CompletionHandler handler, Instant now);
  /// Completes a transaction with Cancelled.
  [[nodiscard]] Result<void> cancel(TransactionId transaction, Instant now);
  /// Restarts the response timeout, as needed by a CM that received an MRA.
  [[nodiscard]] Result<void> set_timeout(TransactionId transaction, Duration timeout, Instant now);

  /// Sends a message without retries, or a response of any size.
  [[nodiscard]] Result<void> post(AgentId agent, const MadAddress& to, MadMessage message,
                                  Instant now);
  /// Sends a deferred response. NotFound if the deferral expired.
  [[nodiscard]] Result<void> respond(const Deferral& deferral, MadMessage answer, Instant now);

  /// Processes the payload of a packet received by the QP. The content is not trusted.
  void handle_mad(const MadAddress& source, ByteSpan bytes, Instant now);
  void handle_timeout(Instant now);

  /// The next MAD to send; none if the queue is empty or the rate limit requires a pause.
  [[nodiscard]] std::optional<MadPacket> poll_transmit(Instant now);
  /// When handle_timeout or poll_transmit must be called next.
  [[nodiscard]] Instant deadline() const;

  /// Observes every MAD sent and received. A snooper must not call the interface.
  enum class Direction : std::uint8_t { Received, Sent };
  using Snooper = std::function<void(Direction, const MadAddress&, ByteSpan)>;
  [[nodiscard]] std::uint32_t add_snooper(Snooper snooper);
  void remove_snooper(std::uint32_t snooper) { snoopers_.erase(snooper); }

  [[nodiscard]] std::size_t transactions() const { return key_of_.size(); }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  /// Aborts if internal tables contradict each other.
  void check_invariants() const;

 private:
  friend class MadRequest;
  using Phase = Exchange::Phase;
  using Exchanges = std::map<ExchangeKey, Exchange>;
  using ExchangeEntry = Exchanges::iterator;

  // management_interface.cc
  void transmit(const MadAddress& to, const MadBytes& mad);
  void arm(ExchangeEntry entry, Instant deadline);
  void erase(ExchangeEntry entry);
  [[nodiscard]] bool can_serve(const ExchangeKey& key, std::size_t answer_bytes = 0);
  [[nodiscard]] bool is_within_share(const ExchangeKey& key, std::size_t answer_bytes) const;
  void snoop(Direction way, const MadAddress& address, ByteSpan bytes) const;
  void expire(ExchangeEntry entry, Instant now);

  // transactions.cc
  [[nodiscard]] Result<void> check_request(AgentId agent, const MadMessage& message) const;
  void start(ExchangeEntry entry, Instant now);
  void start_waiting(Instant now);
  void ask(ExchangeEntry entry, Instant now);
  void retry_or_fail(ExchangeEntry entry, Instant now);
  void complete(ExchangeEntry entry, Completion completion, Instant now);
  [[nodiscard]] Duration response_timeout(const Exchange& exchange) const;
  [[nodiscard]] bool redirect(ExchangeEntry entry, const MadMessage& answer, Instant now);

  // receive.cc
  void handle_request(const MadAddress& source, const MadBytes& mad, Instant now);
  void handle_answer(const MadAddress& source, const MadBytes& mad, Instant now);
  void deliver(MadHandler& handler, const ExchangeKey& key, const MadAddress& source,
               MadMessage request, Instant now);
  void answer(const ExchangeKey& key, const MadAddress& to, MadMessage message, Instant now);
  void refuse(const MadAddress& source, const MadBytes& mad, std::uint16_t status);
  [[nodiscard]] bool deliver_segment(const MadAddress& source, const MadBytes& mad, Instant now);
  [[nodiscard]] MadHandler* handler_for(const MadAddress& source, const MadBytes& mad);
  [[nodiscard]] ExchangeEntry find(const MadAddress& source, const wire::MadHeader& header);

  // rmpp_exchange.cc
  void handle_rmpp(const MadAddress& source, const MadBytes& mad, Instant now);
  void handle_data(const MadAddress& source, const MadBytes& mad, Instant now);
  void take_data(ExchangeEntry entry, const MadBytes& mad, Instant now);
  void handle_ack(ExchangeEntry entry, const MadBytes& mad, Instant now);
  void end_by_us(ExchangeEntry entry, const MadBytes& mad, wire::RmppStatus status, Instant now);
  void end_by_peer(ExchangeEntry entry, wire::RmppStatus status, Instant now);
  void end(ExchangeEntry entry, wire::RmppStatus status, Instant now);
  void start_sending(ExchangeEntry entry, MadMessage message, Instant now);
  void send_segments(ExchangeEntry entry, Instant now);
  void sender_failed(ExchangeEntry entry, Instant now);
  void reply(const MadAddress& to, const MadBytes& mad, const wire::Rmpp& rmpp);
  [[nodiscard]] RmppReceiver make_receiver(wire::ManagementClass mgmt_class, Instant now) const;
  [[nodiscard]] ExchangeEntry serve(const ExchangeKey& key, const MadAddress& peer);

  InterfaceKind kind_;
  Limits limits_;
  Counters counters_;
  AgentTable agents_;
  MadAddress subnet_manager_{};
  Exchanges exchanges_;
  std::map<TransactionId, ExchangeKey> key_of_;          // pending transactions
  std::set<std::pair<Instant, ExchangeKey>> deadlines_;  // of exchanges with a deadline
  std::deque<TransactionId> waiting_;
  std::deque<MadPacket> out_;
  std::map<std::uint32_t, Snooper> snoopers_;
  Pacer pacer_;
  std::size_t receiving_bytes_{};  // held by RMPP receivers
  std::size_t in_flight_{};
  std::size_t served_{};
  std::size_t lingering_{};  // client exchanges in phase Lingering
  std::uint64_t last_transaction_{};
  std::uint32_t last_tid_{};
  std::uint32_t last_snooper_{};
  bool is_closing_{};
};

}  // namespace weft::mad
