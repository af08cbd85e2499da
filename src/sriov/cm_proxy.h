#pragma once

// The communication managers of all functions behind one port, as one. Outbound messages get a
// communication ID that is the port's; inbound requests are steered by what they contain, other
// messages by that ID (IBTA vol 1 §12.6). One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "sriov/communication_ids.h"
#include "sriov/decision.h"
#include "sriov/gid_table.h"
#include "sriov/service_table.h"
#include "sriov/types.h"
#include "wire/layout.h"

namespace weft::sriov {

/// The first two fields of all messages, but of SIDR_REQ and SIDR_REP, whose RequestID is in the
/// place of the first one.
struct CommunicationIdPair {
  static constexpr std::string_view kName = "communication IDs";

  std::uint32_t local{};
  std::uint32_t remote{};

  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"LocalCommID", 32, &CommunicationIdPair::local>,
      wire::Field<"RemoteCommID", 32, &CommunicationIdPair::remote>>;
  // clang-format on
};

[[nodiscard]] CommunicationIdPair communication_ids_of(const MadBytes& mad);
void set_communication_ids(MadBytes& mad, const CommunicationIdPair& ids);

class CmProxy {
 public:
  /// `first_id`: see CommunicationIds. `services`: of each function.
  CmProxy(const ConnectionLimits& limits, std::uint32_t first_id, std::size_t services)
      : limits_(limits), ids_(limits, first_id), services_(services) {}

  /// Replaces the local ID of a function's message. UnknownLocalCommunicationId,
  /// TooManyConnections.
  [[nodiscard]] OrReason<void> translate_outbound(FunctionId function, MadBytes& mad, Instant now);

  struct Owner {
    FunctionId function{};
    Reason reason{};
    bool operator==(const Owner&) const = default;
  };
  /// The function that a message from `slid` is for, and puts that function's own ID into it. None:
  /// the message says nothing, and what was found before holds. `has_grh`: it was found by the
  /// GRH. UnknownEmbeddedGid, UnknownCommunicationId.
  [[nodiscard]] OrReason<std::optional<Owner>> steer_inbound(MadBytes& mad, Lid slid, bool has_grh,
                                                             const GidTable& gids, Instant now);

  /// Its IDs are free after the delay; messages for them are dropped until then.
  void remove(FunctionId function, Instant now);

  [[nodiscard]] CommunicationIds& ids() { return ids_; }
  [[nodiscard]] const CommunicationIds& ids() const { return ids_; }
  [[nodiscard]] ServiceTable& services() { return services_; }
  /// Asked from now on in place of services(); outlives this.
  void set_directory(const ServiceDirectory& directory) { directory_ = &directory; }

  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;
  void check_invariants() const { ids_.check_invariants(); }

 private:
  struct PeerRequest {
    FunctionId function{};
    Instant expires;
  };
  /// A peer's LID and communication ID.
  using PeerKey = std::pair<Lid, std::uint32_t>;

  void remember(const PeerKey& peer, FunctionId function, Instant now);
  [[nodiscard]] OrReason<std::optional<Owner>> steer_req(const MadBytes& mad, Lid slid,
                                                         const GidTable& gids, Instant now);
  [[nodiscard]] std::optional<Owner> steer_sidr_req(const MadBytes& mad, bool has_grh,
                                                    const GidTable& gids) const;
  [[nodiscard]] OrReason<std::optional<Owner>> steer_by_id(MadBytes& mad, Lid slid, Instant now);

  ConnectionLimits limits_;
  CommunicationIds ids_;
  ServiceTable services_;
  const ServiceDirectory* directory_{};           // null: services_
  std::map<PeerKey, PeerRequest> peer_requests_;  ///< REQs that were delivered
};

}  // namespace weft::sriov
