#pragma once

// RDMA-CM of one host (IBTA vol 1 annex A11): connections between IP addresses and ports, as
// programs know them from librdmacm. It finds the port and the peer's GID (sa::Resolver), the path
// (sa::SaClient), and has cm::ConnectionManager make, refuse and end the connection. QPs are their
// users' business. Pure; one thread.
//
// A call is refused in a wrong state with nothing done (InvalidArgument). Events go to the id's
// sink at any time, from inside calls too.

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

/// A port of the host. `sa` must outlive its being here.
struct RdmaPort {
  sa::SaClient& sa;
  std::string device;  ///< its HCA's verbs name
  PortNumber number{1};
};

struct RdmaCmLimits {
  std::size_t ids{65'536};  ///< policy
  std::size_t groups_of_id{64};
  unsigned redirections{3};         ///< of one request, one after another; policy
  std::size_t services_of_id{256};  ///< places of a service that an id keeps; policy
};

/// As SA tells it.
[[nodiscard]] Path path_of(const wire::PathRecord& record);

class RdmaCm final : private CmObserver {
 public:
  /// Both must outlive it. Give each manager a seed that nobody can guess.
  RdmaCm(ConnectionManager& connections, sa::Resolver& resolver, std::uint64_t seed,
         const RdmaCmLimits& limits = {});
  ~RdmaCm() override;

  // --- ports
  void add_port(PortKey key, const RdmaPort& port) { ports_.emplace(key, port); }
  void remove_port(PortKey key) { ports_.erase(key); }

  // --- ids
  /// `sink` must outlive the id and those that are made for it as a listener.
  [[nodiscard]] Result<RdmaCmId> create(PortSpace space, QpType type, RdmaCmSink& sink,
                                        std::uint64_t context);
  /// In any state; nothing is told of it any more. What the peer is told, cm/state_table.h says.
  Result<void> destroy(RdmaCmId id, Instant now);
  /// Whom its events go to from now on.
  [[nodiscard]] Result<void> set_sink(RdmaCmId id, RdmaCmSink& sink);
  /// An id that a request made tells nothing before, since nobody would know whose it is.
  [[nodiscard]] Result<void> set_context(RdmaCmId id, std::uint64_t context);
  [[nodiscard]] Result<void> set_option(RdmaCmId id, RdmaCmOption option, std::uint32_t value);
  [[nodiscard]] Result<RdmaCmIdInfo> info(RdmaCmId id) const;

  // --- addresses and routes
  /// Programs tell their peers of the port before they listen: who asks for it at once waits for
  /// that (Options::listener_grace).
  [[nodiscard]] Result<void> bind(RdmaCmId id, const SocketAddress& address, Instant now);
  /// `loopback_means`: as sa::Resolver has it. Ends in AddressResolved or AddressError.
  struct AddressQuery {
    SocketAddress source{};  ///< none: chosen
    SocketAddress destination{};
    Duration timeout{};
    std::optional<IpAddress> loopback_means{};
  };
  [[nodiscard]] Result<void> resolve_address(RdmaCmId id, const AddressQuery& query, Instant now);
  /// Ends in RouteResolved or RouteError.
  [[nodiscard]] Result<void> resolve_route(RdmaCmId id, Duration timeout, Instant now);
  /// The user knows the paths: the primary one, and an alternate. RouteResolved follows.
  [[nodiscard]] Result<void> set_paths(RdmaCmId id, std::vector<Path> paths);

  // --- services
  /// Asks SA where a service is, from the port that the id is bound to. Ends in AddrinfoResolved or
  /// AddrinfoError; the id is bound as before then.
  [[nodiscard]] Result<void> resolve_service(RdmaCmId id, const ServiceWish& wish, Instant now);
  /// What SA answered last.
  [[nodiscard]] Result<std::vector<ServicePlace>> services(RdmaCmId id) const;

  // --- connections
  [[nodiscard]] Result<void> listen(RdmaCmId id, unsigned backlog, Instant now);
  [[nodiscard]] Result<void> connect(RdmaCmId id, const ConnectionParameters& parameters,
                                     Instant now);
  /// With parameters: the answer to a ConnectRequest. Without: that the QP of the active side is
  /// ready to send, after ConnectResponse.
  [[nodiscard]] Result<void> accept(RdmaCmId id, const ConnectionParameters* parameters,
                                    Instant now);
  /// Reason 0 is the consumer's own (28).
  [[nodiscard]] Result<void> reject(RdmaCmId id, std::uint8_t reason, ByteSpan private_data,
                                    Instant now);
  [[nodiscard]] Result<void> disconnect(RdmaCmId id, Instant now);
  [[nodiscard]] Result<void> notify(RdmaCmId id, QpEvent event, Instant now);
  /// The QP received something before it was in RTS, which is as good as an RTU (R-RVT-16).
  void communication_established(Qpn qpn, Instant now);

  /// What the transition to `state` needs; the Q_Key only for UD.
  struct QpTransition {
    QpAttributes attributes{};
    std::optional<QKey> qkey{};
  };
  [[nodiscard]] Result<QpTransition> qp_attributes(RdmaCmId id, QpState state) const;

  // --- groups
  /// Ends in MulticastJoin or MulticastError, with `context`.
  [[nodiscard]] Result<GroupId> join(RdmaCmId id, const SocketAddress& address, bool is_send_only,
                                     std::uint64_t context, Instant now);
  [[nodiscard]] Result<void> leave(GroupId group, Instant now);
  [[nodiscard]] std::optional<RdmaCmId> id_of(GroupId group) const;

  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  struct Group {
    RdmaCmId id{};
    std::uint64_t context{};
    PortKey port{};
    sa::MembershipId membership{};
    bool is_joined{};
  };
  struct Id {
    RdmaCmSink* sink{};
    std::uint64_t context{};
    RdmaCmState state{RdmaCmState::Idle};
    PortSpace space{};
    QpType type{};
    SocketAddress source{};
    SocketAddress destination{};
    IpAddress peer_address{};  ///< the destination's own, when a loopback address means it
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
    bool has_user{true};  ///< false: of a request, and nobody has said its context yet
    std::size_t groups{};
    /// Of a request that may be sent again, elsewhere: what the user said, and how often so far.
    std::optional<ConnectionParameters> asked{};
    std::optional<ManagerPlace> manager{};
    unsigned redirections{};
  };
  /// What a REJ for redirection says: the port that takes the request, or that port and its CM.
  struct Redirection {
    wire::ClassPortInfo to{};
    bool is_of_manager{};
  };

  [[nodiscard]] Id* find(RdmaCmId id);
  [[nodiscard]] const Id* find(RdmaCmId id) const;
  [[nodiscard]] Result<Id*> in_state(RdmaCmId id, std::initializer_list<RdmaCmState> states,
                                     std::string_view call);
  bool tell(RdmaCmId id, Id& of, RdmaCmEvent event);
  void fail_with(RdmaCmId id, Id& of, RdmaCmEventType type, RdmaCmFailure failure);
  [[nodiscard]] Result<void> take_port(RdmaCmId id, Id& of);
  [[nodiscard]] Result<void> take_address(RdmaCmId id, const SocketAddress& address);
  [[nodiscard]] Result<void> bind_to_port_of(Id& of);
  [[nodiscard]] IpAddress own_address(const IpAddress& address) const;
  void cancel_questions(Id& of, Instant now);
  void leave_groups(RdmaCmId id, const Id& of, Instant now);
  /// The RTU came, or never will.
  void forget_accepted(RdmaCmId id, const Id& of);

  // rdma_cm_resolve.cc
  void address_found(RdmaCmId id, const sa::Resolution& found);
  [[nodiscard]] Result<void> resolve_ib(RdmaCmId id, Id& of, const IbEndpoint& destination);
  [[nodiscard]] Result<void> resolve_group(RdmaCmId id, Id& of, const IpEndpoint& group);
  void path_found(RdmaCmId id, const sa::Answer<wire::PathRecord>& path);

  [[nodiscard]] static sa::PathWish wish_of(const Id& of, const Gid& dgid, PKey pkey);

  // rdma_cm_services.cc
  void services_found(RdmaCmId id, const sa::Answer<std::vector<wire::ServiceRecord>>& records);

  // rdma_cm_redirect.cc
  [[nodiscard]] static std::optional<Redirection> redirection_of(const RejReceived& rej);
  [[nodiscard]] bool follow(RdmaCmId id, Id& of, const CmEvent& event, Instant now);
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
  void tell_rejected(RdmaCmId id, Id& of, const CmEvent& event);
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
  std::multimap<Qpn, RdmaCmId> accepted_;  ///< by the QPN that REP told, until RTU came
  std::uint32_t last_id_{};
  std::uint32_t last_group_{};
};

}  // namespace weft::cm
