#pragma once

// The RDMA-CM of one host (IBTA vol 1 annex A11): connections between IP addresses and port
// numbers, with the semantics of librdmacm. It resolves an IP address to a port and GID
// (sa::Resolver) and to a path (sa::SaClient), and uses cm::ConnectionManager to establish, reject
// and release connections. QPs belong to the users. Pure, not thread-safe.
//
// A call in a state that does not allow it fails with InvalidArgument and changes nothing. Events
// are delivered to the id's sink at any time, also from inside calls.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/serial.h"
#include "base/time.h"
#include "cm/connection_manager.h"
#include "cm/rdma/port_table.h"
#include "cm/rdma/types.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/service_record.h"

namespace weft::cm {

/// A port of the host. `sa` must outlive the port's registration.
struct RdmaPort {
  sa::SaClient& sa;
  std::string device;  ///< verbs name of its HCA
  PortNumber number{1};
};

/// Upper bounds of the tables of one RdmaCm; policy, not from the specification.
struct RdmaCmLimits {
  std::size_t ids{65'536};
  std::size_t groups_of_id{64};
  unsigned redirections{3};         ///< of one request, one after another; policy
  std::size_t services_of_id{256};  ///< places of a service that an id keeps; policy
};

/// Converts a path record of SA; none if its MTU is a reserved code.
[[nodiscard]] std::optional<Path> path_of(const wire::PathRecord& record);

/// Connection setup by IP address, for all programs of one host.
class RdmaCm final : private CmObserver {
 public:
  /// `connections` and `resolver` must outlive it. Use a seed that nobody can guess.
  RdmaCm(ConnectionManager& connections, sa::Resolver& resolver, std::uint64_t seed,
         const RdmaCmLimits& limits = {});
  ~RdmaCm() override;

  // --- ports
  void add_port(PortKey key, const RdmaPort& port) { ports_.emplace(key, port); }
  void remove_port(PortKey key) { ports_.erase(key); }
  /// All devices of the host are going. Ids that are bound to one are told so by DeviceRemoval, and
  /// so are listeners, which nobody will reach any more; then all ids are destroyed, by which the
  /// peers of connections learn of the end while MADs still leave.
  void remove_devices(Instant now);

  // --- ids
  /// `sink` must outlive the id and all ids created for it as a listener.
  [[nodiscard]] Result<RdmaCmId> create(PortSpace space, QpType type, RdmaCmSink& sink,
                                        std::uint64_t context);
  /// Allowed in any state. No further event is delivered; the peer is notified as cm/state_table.h
  /// defines.
  Result<void> destroy(RdmaCmId id, Instant now);
  /// Redirects the id's events to `sink`.
  [[nodiscard]] Result<void> set_sink(RdmaCmId id, RdmaCmSink& sink);
  /// Sets the user's context. An id created for an incoming request delivers no event before this
  /// call, since the user could not attribute it.
  [[nodiscard]] Result<void> set_context(RdmaCmId id, std::uint64_t context);
  [[nodiscard]] Result<void> set_option(RdmaCmId id, RdmaCmOption option, std::uint32_t value);
  [[nodiscard]] Result<RdmaCmIdInfo> info(RdmaCmId id) const;

  // --- addresses and routes
  /// Binds the id. Some programs announce the bound port before they listen, so a request that
  /// arrives in between is held (Options::listener_grace).
  [[nodiscard]] Result<void> bind(RdmaCmId id, const SocketAddress& address, Instant now);
  /// Parameters of `resolve_address`. `loopback_target`: see sa::Resolver.
  struct AddressQuery {
    SocketAddress source{};  ///< empty: selected by the resolver
    SocketAddress destination{};
    Duration timeout{};
    std::optional<IpAddress> loopback_target{};
  };
  /// Completes with AddressResolved or AddressError.
  [[nodiscard]] Result<void> resolve_address(RdmaCmId id, const AddressQuery& query, Instant now);
  /// Completes with RouteResolved or RouteError.
  [[nodiscard]] Result<void> resolve_route(RdmaCmId id, Duration timeout, Instant now);
  /// Supplies the primary and optionally an alternate path instead of querying SA. RouteResolved
  /// follows.
  [[nodiscard]] Result<void> set_paths(RdmaCmId id, std::vector<Path> paths);

  // --- services
  /// Asks SA where a service is, from the port that the id is bound to. Ends in AddrinfoResolved or
  /// AddrinfoError; the id is bound as before then.
  [[nodiscard]] Result<void> resolve_service(RdmaCmId id, const ServiceWish& path_query,
                                             Instant now);
  /// What SA answered last.
  [[nodiscard]] Result<std::vector<ServicePlace>> services(RdmaCmId id) const;

  // --- connections
  [[nodiscard]] Result<void> listen(RdmaCmId id, unsigned backlog, Instant now);
  [[nodiscard]] Result<void> connect(RdmaCmId id, const ConnectionParameters& parameters,
                                     Instant now);
  /// With parameters: answers a ConnectRequest. Without (active side, after ConnectResponse): the
  /// QP is ready to send.
  [[nodiscard]] Result<void> accept(RdmaCmId id, const ConnectionParameters* parameters,
                                    Instant now);
  /// Reason 0 means reason 28 (consumer reject).
  [[nodiscard]] Result<void> reject(RdmaCmId id, std::uint8_t reason, ByteSpan private_data,
                                    Instant now);
  [[nodiscard]] Result<void> disconnect(RdmaCmId id, Instant now);
  [[nodiscard]] Result<void> notify(RdmaCmId id, AsyncEventType event, Instant now);
  /// The QP received a packet before it was in RTS, which implies the RTU (R-RVT-16).
  void communication_established(Qpn qpn, Instant now);

  /// What the QP's transition to `state` sets (R-CM-3).
  [[nodiscard]] Result<QpModification> qp_attributes(RdmaCmId id, QpState state) const;

  // --- groups
  /// Completes with MulticastJoin or MulticastError, which carry `context`.
  [[nodiscard]] Result<GroupId> join(RdmaCmId id, const SocketAddress& address, bool is_send_only,
                                     std::uint64_t context, Instant now);
  [[nodiscard]] Result<void> leave(GroupId group, Instant now);
  [[nodiscard]] std::optional<RdmaCmId> id_of(GroupId group) const;

  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  /// A multicast membership of an id.
  struct Group {
    RdmaCmId id{};
    std::uint64_t context{};
    PortKey port{};
    sa::MembershipId membership{};
    bool is_joined{};
  };
  /// One id and its progress.
  struct Id {
    RdmaCmSink* sink{};
    std::uint64_t context{};
    RdmaCmState state{RdmaCmState::Idle};
    PortSpace space{};
    QpType type{};
    SocketAddress source{};
    SocketAddress destination{};
    /// the peer's own address, if the destination is a loopback address that stands for it
    IpAddress peer_address{};
    std::optional<PortKey> port{};
    PKey pkey{kDefaultPKey};
    Gid sgid{};
    Gid dgid{};
    std::vector<Path> paths{};
    std::vector<ServicePlace> services{};
    std::optional<CmId> connection{};
    std::optional<sa::ResolutionId> resolution{};
    std::optional<sa::QueryId> query{};
    std::uint16_t claimed_port{};
    Psn starting_psn{};
    QKey qkey{};
    Qpn qpn{};
    std::uint8_t type_of_service{};
    std::optional<std::uint8_t> ack_timeout{};
    bool reuses_address{};
    bool is_af_only{};
    bool has_user{true};  ///< false: created for an incoming request, context not yet set
    std::size_t groups{};
    /// State of a request that may be resent to a redirection target: the user's parameters, the CM
    /// to use, and the number of redirections so far.
    std::optional<ConnectionParameters> pending_request{};
    std::optional<ManagerAddress> manager{};
    unsigned redirections{};
  };
  /// Content of a REJ for redirection: the port to use, and whether only its CM is meant.
  struct Redirection {
    wire::ClassPortInfo to{};
    bool is_of_manager{};
  };

  [[nodiscard]] Id* find(RdmaCmId id);
  [[nodiscard]] const Id* find(RdmaCmId id) const;
  [[nodiscard]] Result<Id*> in_state(RdmaCmId id, std::initializer_list<RdmaCmState> states,
                                     std::string_view call);
  bool report_event(RdmaCmId id, Id& of, RdmaCmEvent event);
  void fail_with(RdmaCmId id, Id& of, RdmaCmEventType type, RdmaCmFailure failure);
  [[nodiscard]] Result<void> take_port(RdmaCmId id, Id& of);
  [[nodiscard]] Result<void> take_address(RdmaCmId id, const SocketAddress& address);
  [[nodiscard]] Result<void> bind_to_port_of(Id& of);
  [[nodiscard]] IpAddress own_address(const IpAddress& address) const;
  void cancel_queries(Id& of, Instant now);
  void leave_groups(RdmaCmId id, const Id& of, Instant now);
  /// The RTU arrived, or will never arrive.
  void erase_accepted(RdmaCmId id, const Id& of);

  // rdma_cm_resolve.cc
  void address_found(RdmaCmId id, const sa::Resolution& found);
  [[nodiscard]] Result<void> resolve_ib(RdmaCmId id, Id& of, const IbEndpoint& destination);
  [[nodiscard]] Result<void> resolve_group(RdmaCmId id, Id& of, const IpEndpoint& group);
  void path_found(RdmaCmId id, const sa::Answer<wire::PathRecord>& path);

  [[nodiscard]] static sa::PathQuery path_query_of(const Id& of, const Gid& dgid, PKey pkey);

  // rdma_cm_services.cc
  void services_found(RdmaCmId id, const sa::Answer<std::vector<wire::ServiceRecord>>& records);

  // rdma_cm_redirect.cc
  [[nodiscard]] static std::optional<Redirection> redirection_of(const RejReceived& rej);
  [[nodiscard]] bool follow_redirection(RdmaCmId id, Id& of, const CmEvent& event, Instant now);
  [[nodiscard]] bool request_again(Id& of, const Path& path, const Redirection& redirection,
                                   Instant now);

  // rdma_cm_connect.cc
  [[nodiscard]] Result<std::vector<std::byte>> request_data(const Id& of, ByteSpan private_data,
                                                            std::size_t most) const;
  [[nodiscard]] Result<void> send_request(Id& of, const ConnectionParameters& parameters,
                                          Instant now);
  [[nodiscard]] Result<void> send_service_request(Id& of, const ConnectionParameters& parameters,
                                                  Instant now);
  [[nodiscard]] Result<void> answer_service_request(Id& of, const ConnectionParameters* parameters,
                                                    Instant now);

  // rdma_cm_groups.cc
  [[nodiscard]] static Result<Gid> group_of(const Id& of, const SocketAddress& address);
  void membership_changed(GroupId number, const sa::Answer<wire::McMemberRecord>& record);

  // rdma_cm_events.cc
  [[nodiscard]] Handled handle(CmId connection, const CmEvent& event, Instant now) override;
  [[nodiscard]] Handled request_received(CmId connection, const CmEvent& event, Instant now);
  [[nodiscard]] Handled service_request_received(CmId connection, const CmEvent& event,
                                                 Instant now);
  [[nodiscard]] bool address_child(Id& child, const Id& listening, std::uint64_t service_id,
                                   std::vector<std::byte>& data) const;
  [[nodiscard]] Handled make_child(CmId connection, RdmaCmId listener, Id child, RdmaCmEvent event);
  [[nodiscard]] Handled connection_event(RdmaCmId id, Id& of, const CmEvent& event, Instant now);
  void report_rejected(RdmaCmId id, Id& of, const CmEvent& event);
  void service_reply_received(RdmaCmId id, Id& of, const CmEvent& event);
  void disconnected(RdmaCmId id, Id& of);

  ConnectionManager& connections_;
  sa::Resolver& resolver_;
  RdmaCmLimits limits_;
  Random random_;
  PortTable port_numbers_;
  std::map<PortKey, RdmaPort> ports_;
  std::map<RdmaCmId, Id> ids_;
  std::map<GroupId, Group> groups_;
  std::multimap<Qpn, RdmaCmId> accepted_;  ///< by the QPN sent in the REP, until the RTU arrives
  std::uint32_t last_id_{};
  std::uint32_t last_group_{};
};

}  // namespace weft::cm
