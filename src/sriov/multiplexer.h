#pragma once

// Shares one port of an HCA among its functions: what they send through their tunnels is checked,
// translated and sent by the real QP1; what that receives is steered to the function it is for.
// QP0 is the physical function's. Each MAD gets one Decision.
//
// Every function, the physical one's own consumers too, has an object of each kind behind this:
// tunnels, IDs, P_Keys, memberships, a GUID, a port. One thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mad/pacer.h"
#include "sriov/alias_guids.h"
#include "sriov/cm_proxy.h"
#include "sriov/decision.h"
#include "sriov/function_port.h"
#include "sriov/gid_table.h"
#include "sriov/group_proxy.h"
#include "sriov/open_tables.h"
#include "sriov/pkey_tables.h"
#include "sriov/transaction_ids.h"
#include "sriov/tunnel.h"
#include "sriov/types.h"
#include "verbs/async_event.h"
#include "wire/sriov/tunnel_headers.h"

namespace weft::sriov {

struct FunctionOptions {
  Guid guid{kGuidByManager};                 ///< as AliasGuids::set
  std::vector<std::uint16_t> pkeys{0};       ///< as PKeyTables::assign
  Duration mad_interval{};                   ///< between MADs on average; zero: no limit
  std::uint32_t mad_burst{64};               ///< policy
  bool serves_device_management{};           ///< may answer as an I/O unit: an SRP target
  std::optional<std::size_t> most_groups{};  ///< none: GroupLimits::groups_of_function
};

struct MultiplexerOptions {
  PortNumber port{1};
  Guid port_guid{};
  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  std::uint16_t most_functions{128};  ///< up to kMostFunctions, the physical one included
  std::size_t ring_slots{Tunnel::kRingSlots};
  Qpn proxy_base{0x400};
  Qpn tunnel_base{0x8000};
  std::uint32_t first_communication_id{};  ///< best random
  std::size_t services{64};                ///< policy, of a function: see ServiceTable
  std::size_t wire_queue{1024};            ///< policy: then tunnels wait
  TransactionLimits transactions{};
  OpenTableLimits tables{};
  ConnectionLimits connections{};
  GroupLimits groups{};
  AliasGuidLimits alias_guids{};
};

/// What moves with a function to another port.
struct FunctionState {
  Guid guid{};
  std::vector<wire::McMemberRecord> memberships;
  std::vector<CommunicationId> connections;
};

class Multiplexer {
 public:
  explicit Multiplexer(const MultiplexerOptions& options, Instant now);

  /// InvalidArgument: no such number or P_Key index. Exists. Busy: it is gone for less than the
  /// delay of communication IDs, and MADs for it may still come.
  [[nodiscard]] Result<void> add_function(FunctionId function, const FunctionOptions& options,
                                          Instant now);
  /// NotFound; InvalidArgument for the physical function.
  [[nodiscard]] Result<void> remove_function(FunctionId function, Instant now);
  /// Changes all options but the GUID. NotFound; InvalidArgument: a P_Key index that the port does
  /// not have.
  [[nodiscard]] Result<void> change_function(FunctionId function, const FunctionOptions& options);
  /// Another alias GUID: the one before is given up at once, and the function's port is Active when
  /// SA has registered the new one. NotFound.
  [[nodiscard]] Result<void> set_guid(FunctionId function, Guid guid, Instant now);
  /// Removes it here, and says what another port needs to go on. NotFound.
  [[nodiscard]] Result<FunctionState> export_function(FunctionId function, Instant now);
  /// Adds it as such. Returns the physical communication IDs that are in use here, whose
  /// connections are lost.
  [[nodiscard]] Result<std::vector<std::uint32_t>> import_function(FunctionId function,
                                                                   FunctionOptions options,
                                                                   const FunctionState& state,
                                                                   Instant now);
  /// Connections that the port's own host made before anybody shared the port: their IDs are on the
  /// wire as the host knows them, and stay so. Returns how many there is no room for; messages of
  /// those are dropped (UnknownCommunicationId).
  std::size_t adopt_connections(std::span<const CommunicationId> connections);
  /// Whether add_function may use the number.
  [[nodiscard]] Result<void> can_add(FunctionId function, Instant now) const;
  [[nodiscard]] bool has_function(FunctionId function) const {
    return functions_.contains(function);
  }

  // A function's side.
  /// TryAgain: its tunnel is not active, or full. NotFound.
  [[nodiscard]] Result<void> post_send(FunctionId function, SpecialQp qp, Qpn source_qp,
                                       const wire::TunnelSend& send);
  [[nodiscard]] std::optional<wire::TunnelReceive> poll_receive(FunctionId function, SpecialQp qp);
  struct FunctionEvent {
    FunctionId function{};
    verbs::AsyncEventType event{};
  };
  [[nodiscard]] std::optional<FunctionEvent> poll_event();
  [[nodiscard]] FunctionPortState port_state(FunctionId function) const;
  [[nodiscard]] std::optional<Gid> gid_of(FunctionId function) const {
    return gids_.gid_of(function);
  }
  /// The P_Key table that the function reads.
  [[nodiscard]] std::vector<PKey> pkeys_of(FunctionId function) const {
    return pkeys_.table_of(function);
  }
  [[nodiscard]] Qpn proxy_qpn(FunctionId function, SpecialQp qp) const {
    return numbers_.proxy(function, qp);
  }

  // The physical function's side.
  /// Takes the next MAD of the tunnels, which have turns. None: there is none, or the queue to the
  /// wire is full.
  std::optional<Decision> serve_tunnel(Instant now);
  [[nodiscard]] std::optional<OutboundMad> poll_wire(Instant now);
  Decision handle_wire(const InboundMad& mad, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;

  /// An SMP that the port's SMA has answered; `request` is the method that was asked.
  void observe_smp(const MadBytes& answer, wire::MadMethod request, Instant now);
  void set_manager(Lid lid, Lid own_lid);
  void set_pkey_table(std::vector<PKey> table) { pkeys_.set_physical(std::move(table)); }
  /// The subnet manager has given the port another GIDPrefix, which is that of all its GIDs.
  void set_subnet_prefix(std::uint64_t prefix);

  [[nodiscard]] ServiceTable& services() { return cm_.services(); }
  /// As CmProxy::set_directory.
  void set_directory(const ServiceDirectory& directory) { cm_.set_directory(directory); }
  [[nodiscard]] GroupProxy& groups() { return groups_; }
  [[nodiscard]] const GroupProxy& groups() const { return groups_; }
  [[nodiscard]] AliasGuids& alias_guids() { return alias_guids_; }
  [[nodiscard]] const AliasGuids& alias_guids() const { return alias_guids_; }
  [[nodiscard]] CommunicationIds& communication_ids() { return cm_.ids(); }
  [[nodiscard]] const CommunicationIds& communication_ids() const { return cm_.ids(); }
  [[nodiscard]] DecisionCounters& counters() { return counters_; }
  [[nodiscard]] const DecisionCounters& counters() const { return counters_; }
  [[nodiscard]] const DecisionLog& decisions() const { return decisions_; }
  [[nodiscard]] const Tunnel* tunnel(FunctionId function, SpecialQp qp) const;
  /// Sees each MAD that enters a tunnel of a virtual function. The physical function's own MADs
  /// need none.
  using TunnelTap = std::function<void(const TunnelDatagram&)>;
  void set_tunnel_tap(TunnelTap tap) { tunnel_tap_ = std::move(tap); }
  void check_invariants() const;

 private:
  struct Function {
    FunctionOptions options;
    std::array<Tunnel, 2> tunnels;  // by SpecialQp
    FunctionPort port;
    mad::Pacer pacer;
  };
  /// Who gets an inbound MAD, as far as criteria have said.
  struct Owner {
    FunctionId function{};
    Reason reason{};
  };

  void open(FunctionId function, const FunctionOptions& options);
  void close(FunctionId function, Instant now);

  // Outbound (outbound.cc).
  Decision handle_outbound(FunctionId function, SpecialQp qp, const Tunnel::Send& send,
                           Instant now);
  [[nodiscard]] OrReason<void> check_send(FunctionId function, Function& state, SpecialQp qp,
                                          Qpn source_qp, const wire::TunnelSend& send, Instant now);
  [[nodiscard]] OrReason<void> check_class(FunctionId function, const Function& state,
                                           const wire::MadHeader& header) const;
  [[nodiscard]] OrReason<Reason> translate(FunctionId function, const wire::TunnelSend& send,
                                           Instant now);
  void answer_busy(FunctionId function, const wire::TunnelSend& send);
  [[nodiscard]] OrReason<Reason> take_membership(FunctionId function, const MadBytes& bytes,
                                                 Instant now);

  // Inbound (steering.cc).
  [[nodiscard]] bool take_own_answer(const InboundMad& mad, Instant now);
  [[nodiscard]] OrReason<Owner> steer(const InboundMad& mad, MadBytes& bytes, Instant now);
  [[nodiscard]] OrReason<void> check_inbound_class(FunctionId function,
                                                   const wire::MadHeader& header) const;
  [[nodiscard]] OrReason<void> deliver(FunctionId function, const InboundMad& mad,
                                       const MadBytes& bytes);

  void show(FunctionId function, SpecialQp qp, bool is_to_function,
            const Tunnel::Buffer& buffer) const;
  void settle(Instant now);
  void tell(FunctionId function, verbs::AsyncEventType event);
  void change_port(FunctionId function, FunctionPortInput input);

  MultiplexerOptions options_;
  TunnelNumbers numbers_;
  GidTable gids_;
  PKeyTables pkeys_;
  TransactionIds transactions_;
  OpenTables tables_;
  CmProxy cm_;
  GroupProxy groups_;
  AliasGuids alias_guids_;
  SmpObserver observer_;
  DecisionCounters counters_;
  DecisionLog decisions_;
  TunnelTap tunnel_tap_;
  Lid manager_lid_{};
  bool is_up_{};
  std::map<FunctionId, Function> functions_;
  std::map<FunctionId, Instant> quarantine_;  ///< until when a number is not used again
  FunctionId last_served_{};
  std::deque<OutboundMad> to_wire_;
  std::deque<FunctionEvent> events_;
};

}  // namespace weft::sriov
