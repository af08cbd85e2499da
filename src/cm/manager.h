#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cm/communication_ids.h"
#include "cm/connection.h"
#include "cm/connection_manager.h"
#include "cm/held_requests.h"
#include "cm/listeners.h"
#include "cm/messages.h"
#include "cm/state_table.h"
#include "mad/management_interface.h"

namespace weft::cm {

/// Implementation of ConnectionManager. Members named as in its interface implement them; each
/// first consults the state table (cm/state_table.h). Not thread-safe.
class ConnectionManager::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// One port: receives the MADs of class ComMgt that its management interface delivers.
  class Port final : public mad::MadHandler, public std::enable_shared_from_this<Port> {
   public:
    Port(Impl& impl, PortKey key, mad::ManagementInterface& gsi, PortAddress address)
        : key_(key), address_(std::move(address)), impl_(impl), gsi_(gsi) {}
    const mad::MadMessage* handle(mad::MadRequest& request) override;

    [[nodiscard]] PortKey key() const { return key_; }
    [[nodiscard]] const PortAddress& address() const { return address_; }
    [[nodiscard]] bool has(const Gid& gid) const;
    [[nodiscard]] bool has(Lid lid) const;
    [[nodiscard]] std::optional<std::uint16_t> gid_index(const Gid& gid) const;
    [[nodiscard]] std::optional<std::uint16_t> pkey_index(PKey pkey) const;

   private:
    friend class Impl;
    PortKey key_;
    PortAddress address_;
    Impl& impl_;
    mad::ManagementInterface& gsi_;
    mad::AgentId agent_{};
  };

  /// The MAD being processed.
  struct Received {
    Port& port;
    const mad::MadAddress& source;
    const mad::MadBytes& mad;
    wire::MadHeader header;
    Instant now;
  };

  // manager_ports.cc
  [[nodiscard]] Result<void> add_port(PortKey key, mad::ManagementInterface& gsi,
                                      const PortAddress& address);
  [[nodiscard]] Result<void> update_port(PortKey key, const PortAddress& address);
  [[nodiscard]] Result<void> remove_port(PortKey key, Instant now);
  [[nodiscard]] Port* find_port(PortKey key);
  [[nodiscard]] const Port* find_port(PortKey key) const;
  [[nodiscard]] const Port* find_port(const Path& path) const;
  [[nodiscard]] Result<const Port*> port_of(const Path& path) const;
  [[nodiscard]] Result<QpModification> init_qp_attributes(CmId id, QpState target) const;

  // manager.cc
  [[nodiscard]] Result<CmId> create(CmObserver& observer, std::uint64_t context);
  [[nodiscard]] Result<void> set_observer(CmId id, CmObserver& observer, std::uint64_t context);
  [[nodiscard]] Result<std::uint64_t> listen(CmId id, const ListenParameters& parameters);
  void expect_listener(std::uint64_t service_id, Instant now) {
    held_requests_.on_listener_closed(service_id, now);
  }
  [[nodiscard]] const ListenerTable& listeners() const { return listeners_; }
  [[nodiscard]] Result<CmId> insert_listen(CmObserver& observer, std::uint64_t service_id,
                                           std::optional<Guid> ca_guid);
  void run(Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  // manager_destroy.cc
  Result<void> destroy(CmId id, Handled why, Instant now);
  /// Sends the DREQ, DREP, REJ or SIDR_REP that the state requires when an id is destroyed.
  void notify_teardown(const Connection& connection, Action action, Instant now);
  /// Destroys the connections of a listener that were not reported to its user.
  void destroy_unreported(CmId listener, Instant now);

  // manager_calls.cc, manager_calls_later.cc
  [[nodiscard]] Result<void> send_req(CmId id, const RequestParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rep(CmId id, const ReplyParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rtu(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_rej(CmId id, const RejectParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_mra(CmId id, std::uint8_t service_timeout, ByteSpan private_data,
                                      Instant now, MraTime time);
  [[nodiscard]] Result<void> notify(CmId id, AsyncEventType event, Instant now);
  [[nodiscard]] Result<void> send_dreq(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_drep(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_lap(CmId id, const Path& alternate, ByteSpan private_data,
                                      Instant now);
  [[nodiscard]] Result<void> send_apr(CmId id, const AprParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_sidr_req(CmId id, const SidrRequestParameters& parameters,
                                           Instant now);
  [[nodiscard]] Result<void> send_sidr_rep(CmId id, const SidrReplyParameters& parameters,
                                           Instant now);

  Result<void> answer_dreq(Connection& connection, ByteSpan private_data, Instant now);
  Result<void> answer_lap(Connection& connection, const AprParameters& parameters, Instant now);

  // manager_status.cc
  [[nodiscard]] std::optional<IdStatus> status(CmId id) const;
  [[nodiscard]] std::vector<IdStatus> ids() const;
  void check_invariants() const;

  // Public for ConnectionManager, which reads them.
  Options options;
  Counters counters;

 private:
  using RemoteKey = std::pair<Guid, std::uint32_t>;  // CA GUID; communication ID or QPN there

  // manager.cc
  [[nodiscard]] Connection* find(CmId id);
  [[nodiscard]] const Connection* find(CmId id) const;
  [[nodiscard]] Connection* find_by_ids(std::uint32_t local_id, std::uint32_t remote_id);
  /// The id of a call that its state allows, and the next state.
  struct Allowed {
    Connection& connection;
    State next{};
  };
  [[nodiscard]] Result<Allowed> allow(CmId id, Input call);
  [[nodiscard]] Connection& make_connection();
  [[nodiscard]] std::uint32_t new_communication_id();
  /// Changes the state and everything that depends on it: timers, backlog, and the fields cleared
  /// in Idle.
  void enter(Connection& connection, State next, Instant now);
  void release(Connection& connection);
  void leave_backlog(Link& link);
  void arm(Connection& connection, Instant deadline);
  /// Frees an id that was destroyed by its user and has no protocol obligations left.
  void reap(CmId id);
  void expire(CmId id, Instant now);
  /// Queues an event for the connection's observer.
  void report_event(const Connection& connection, CmEventType type,
                    decltype(CmEvent::details) details, ByteSpan private_data);
  /// 4.096 us * 2^exponent, scaled and bounded by Limits::max_wait.
  [[nodiscard]] Duration waiting_time(std::uint8_t exponent) const;
  [[nodiscard]] Duration bounded(Duration span) const;
  [[nodiscard]] Duration time_wait_of(const Link& link) const;

  // manager_send.cc
  [[nodiscard]] mad::MadAddress address_of(const Path& path, const Port& port) const;
  [[nodiscard]] Result<void> transmit(PortKey port, const mad::MadAddress& to,
                                      wire::CmAttribute attribute, const mad::MadBytes& mad,
                                      Instant now, bool is_retry = false);
  [[nodiscard]] Result<void> transmit(const Connection& connection, wire::CmAttribute attribute,
                                      const mad::MadBytes& mad, Instant now, bool is_retry = false);
  /// Sends a message that requires an answer, and arms its retry timer.
  [[nodiscard]] Result<void> send_and_await(Connection& connection, State next,
                                            wire::CmAttribute attribute, const mad::MadBytes& mad,
                                            Instant now);
  /// Resends the answer to a duplicate.
  void repeat(Connection& connection, const Boxed<Answer>& answer, Instant now);
  [[nodiscard]] std::uint64_t new_transaction_id(PortKey port, std::uint32_t low) const;
  [[nodiscard]] mad::MadBytes make_rej(const Link& link, State state,
                                       const RejectParameters& parameters) const;
  [[nodiscard]] mad::MadBytes make_dreq(const Link& link, ByteSpan private_data) const;
  [[nodiscard]] static mad::MadBytes make_drep(const Link& link, ByteSpan private_data);
  void disconnect(Connection& connection, Instant now);
  /// Answers a MAD that belongs to no connection with a REJ.
  void reject(const Received& received, wire::RejectReason reason, wire::CmSubject subject,
              std::uint32_t local_id, std::uint32_t remote_id, ByteSpan additional_information);

  // receive.cc
  void receive(const Received& received);
  void on_mra(const Received& received);
  void on_rep(const Received& received);
  void on_rtu(const Received& received);
  void on_rej(const Received& received);
  [[nodiscard]] Connection* find_rejected(const wire::Rej& rej);
  /// Applies the state table to a received message, as far as all messages share it. Returns true
  /// if the message is to be reported to the user after entering state `next`.
  [[nodiscard]] bool takes(Connection& connection, Input input, const Received& received,
                           State& next);
  void extend(Connection& connection, std::uint8_t service_timeout, Instant now);

  // receive_req.cc
  void on_req(const Received& received);
  /// True if the REQ was rejected because of an illegal field.
  [[nodiscard]] bool refuses_fields(const Received& received, const wire::Req& req);
  /// True if the REQ was rejected because of its primary or alternate path.
  [[nodiscard]] bool refuses_paths(const Received& received, const wire::Req& req);
  /// True if the REQ is a duplicate, or was rejected as stale (R-CM-11).
  [[nodiscard]] bool is_known_or_stale(const Received& received, const wire::Req& req);
  /// This side's own REQ for the same service, sent peer to peer (IBTA vol 1 §12.10.4).
  [[nodiscard]] Connection* find_peer(const wire::Req& req);
  /// Whether the listener's backlog has room. FullDropped: full, and the REQ stays unanswered.
  enum class Admission : std::uint8_t { Admitted, Full, FullDropped };
  [[nodiscard]] Admission admission(const Received& received, const Connection& listener);
  [[nodiscard]] Connection& admit(const Received& received, Connection& listener);
  [[nodiscard]] bool is_held(CmId id) const;
  [[nodiscard]] Connection* find_stale(const RemoteKey& qpn, const Received& received);
  void record_remote_qpn(const Connection& connection);
  void end_stale(Connection& old, Instant now);
  /// Both sides sent a peer-to-peer REQ: decides which one becomes passive (IBTA vol 1 §12.10.4).
  void match_peer_req(const Received& received, const wire::Req& req, Connection& connection);
  void accept_req(const Received& received, const wire::Req& req, Connection& connection);
  void refuse_req(const Received& received, const wire::Req& req, wire::RejectReason reason,
                  ByteSpan additional_information = {});

  // receive_later.cc
  void on_dreq(const Received& received);
  void on_drep(const Received& received);
  void on_lap(const Received& received);
  void on_apr(const Received& received);
  [[nodiscard]] std::optional<wire::AprStatus> fault_of(const wire::Lap& lap,
                                                        const Connection& connection) const;
  void on_sidr_req(const Received& received);
  void on_sidr_rep(const Received& received);

  /// An event that is not delivered yet.
  struct PendingEvent {
    CmId id{};
    CmEvent event{};
  };

  CommunicationIds communication_ids_;
  std::uint64_t last_id_{};
  std::uint64_t last_service_id_{kAssignServiceId};
  std::map<PortKey, std::shared_ptr<Port>> ports_;
  std::map<CmId, Connection> connections_;
  std::set<CmId> detached_;
  ListenerTable listeners_;
  HeldRequests held_requests_;
  std::unordered_map<std::uint32_t, CmId> by_local_id_;
  std::map<RemoteKey, CmId> by_remote_id_;
  std::map<RemoteKey, CmId> by_remote_qpn_;
  std::map<SidrKey, CmId> by_sidr_;
  std::map<std::pair<Lid, Gid>, std::size_t> backlog_of_peer_;
  std::multimap<std::uint64_t, CmId> peers_;  // by service ID: ids that sent a peer-to-peer REQ
  std::set<std::pair<Instant, CmId>> timers_;
  std::deque<PendingEvent> pending_events_;
  bool is_delivering_{};
};

}  // namespace weft::cm
