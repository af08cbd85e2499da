#include "sriov/cm_proxy.h"

#include <algorithm>
#include <array>
#include <span>

#include "sriov/planted_bug.h"
#include "wire/cm/cm_codes.h"
#include "wire/cm/rej.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/mad/mad.h"

namespace weft::sriov {
namespace {

using wire::CmAttribute;

constexpr std::size_t kDataAt = wire::kSizeOf<wire::MadHeader>;
constexpr std::size_t kPeerRequests = 65'536;  // policy: REQs of peers that are remembered

/// What becomes of the local ID of an outbound message.
enum class OutboundId : std::uint8_t {
  New,       ///< of a request: an ID, another one than one that closes
  Known,     ///< must exist
  Either,    ///< the known one, or a new one: of an answer to a REQ
  Optional,  ///< the same, but 0 stays 0
  Peers,     ///< it is the peer's
};

enum class InboundOwner : std::uint8_t { EmbeddedGid, Service, RemoteId, RequestId };

struct Row {
  CmAttribute attribute;
  OutboundId outbound;
  InboundOwner inbound;
  bool ends{};  ///< the connection, whoever sends it
};

// After a DREP there is nothing to end: it answers a DREQ.
constexpr auto kRows = std::to_array<Row>({
    {CmAttribute::Req,     OutboundId::New,      InboundOwner::EmbeddedGid, false},
    {CmAttribute::Mra,     OutboundId::Either,   InboundOwner::RemoteId,    false},
    {CmAttribute::Rej,     OutboundId::Optional, InboundOwner::RemoteId,    true },
    {CmAttribute::Rep,     OutboundId::Either,   InboundOwner::RemoteId,    false},
    {CmAttribute::Rtu,     OutboundId::Known,    InboundOwner::RemoteId,    false},
    {CmAttribute::Dreq,    OutboundId::Known,    InboundOwner::RemoteId,    true },
    {CmAttribute::Drep,    OutboundId::Known,    InboundOwner::RemoteId,    false},
    {CmAttribute::SidrReq, OutboundId::New,      InboundOwner::Service,     false},
    {CmAttribute::SidrRep, OutboundId::Peers,    InboundOwner::RequestId,   true },
    {CmAttribute::Lap,     OutboundId::Known,    InboundOwner::RemoteId,    false},
    {CmAttribute::Apr,     OutboundId::Known,    InboundOwner::RemoteId,    false},
});
static_assert(kRows.size() == wire::kCmAttributeCount);

/// Null for what is no message of a connection, as ClassPortInfo.
[[nodiscard]] const Row* row_of(const MadBytes& mad) {
  const auto header = wire::unpack<wire::MadHeader>(std::span{mad}.first<kDataAt>());
  if (header.method != wire::MadMethod::Send) {
    return nullptr;
  }
  const auto* const found = std::ranges::find_if(kRows, [&](const Row& row) {
    return static_cast<std::uint16_t>(row.attribute) == header.attribute_id;
  });
  return found == kRows.end() ? nullptr : found;
}

template <class Message>
[[nodiscard]] Message message_of(const MadBytes& mad) {
  return wire::unpack<Message>(std::span{mad}.subspan<kDataAt, wire::kSizeOf<Message>>());
}

/// True if a message between these two is about the connection of the ID, not about an earlier one
/// or none.
[[nodiscard]] bool is_about(const CommunicationId& id, std::uint32_t peer) {
  return id.peer == 0 || id.peer == peer;
}

}  // namespace

CommunicationIdPair communication_ids_of(const MadBytes& mad) {
  return message_of<CommunicationIdPair>(mad);
}

void set_communication_ids(MadBytes& mad, const CommunicationIdPair& ids) {
  wire::pack(ids, std::span{mad}.subspan<kDataAt, wire::kSizeOf<CommunicationIdPair>>());
}

OrReason<void> CmProxy::translate_outbound(FunctionId function, MadBytes& mad, Instant now) {
  const Row* const row = row_of(mad);
  if (row == nullptr || row->outbound == OutboundId::Peers) {
    return {};
  }
  CommunicationIdPair pair = communication_ids_of(mad);
  const bool is_request = row->outbound == OutboundId::New;
  if (row->outbound == OutboundId::Optional && pair.local == 0) {
    return {};
  }
  CommunicationId* id = is_request ? ids_.find(function, pair.local)
                                   : ids_.find_with_peer(function, pair.local, pair.remote);
  // A request repeats itself, but not under the ID of an answer or of a connection that is over:
  // an earlier peer may still know that one.
  const bool may_repeat = id != nullptr && id->is_of_request &&
                          (!id->is_closing || planted(PlantedBug::ClosingIdReused));
  if (is_request && !may_repeat) {
    id = nullptr;
  }
  if (id == nullptr) {
    if (row->outbound == OutboundId::Known) {
      return std::unexpected(Reason::UnknownLocalCommunicationId);
    }
    const auto created = ids_.create(function, pair.local, now);
    if (!created) {
      return std::unexpected(created.error());
    }
    id = *created;
    id->peer = is_request ? 0 : pair.remote;
    id->is_of_request = is_request;
  }
  if (row->attribute == CmAttribute::Rtu) {
    ids_.establish(*id);
  }
  if (row->ends && is_about(*id, pair.remote)) {
    ids_.schedule_release(*id, now);
  }
  pair.local = id->physical;  // the second field, whatever it means in this message, stays
  set_communication_ids(mad, pair);
  return {};
}

OrReason<std::optional<CmProxy::Owner>> CmProxy::steer_inbound(MadBytes& mad, Lid slid,
                                                               bool has_grh, const GidTable& gids,
                                                               Instant now) {
  const Row* const row = row_of(mad);
  if (row == nullptr) {
    return std::nullopt;
  }
  switch (row->inbound) {
    case InboundOwner::EmbeddedGid:
      return steer_req(mad, slid, gids, now);
    case InboundOwner::Service:
      return steer_sidr_req(mad, has_grh, gids);
    case InboundOwner::RemoteId:
    case InboundOwner::RequestId:
      return steer_by_id(mad, slid, now);
  }
  return std::nullopt;
}

OrReason<std::optional<CmProxy::Owner>> CmProxy::steer_req(const MadBytes& mad, Lid slid,
                                                           const GidTable& gids, Instant now) {
  const auto request = message_of<wire::Req>(mad);
  const auto function = gids.find(request.primary.remote_gid);  // remote of the peer: ours
  if (!function) {
    return std::unexpected(Reason::UnknownEmbeddedGid);
  }
  remember({slid, request.local_communication_id}, *function, now);
  return Owner{.function = *function, .reason = Reason::EmbeddedGid};
}

std::optional<CmProxy::Owner> CmProxy::steer_sidr_req(const MadBytes& mad, bool has_grh,
                                                      const GidTable& gids) const {
  if (planted(PlantedBug::SidrReadAsReq)) {
    const auto wrong = gids.find(message_of<wire::Req>(mad).primary.remote_gid);
    return Owner{.function = wrong.value_or(kPhysicalFunction), .reason = Reason::EmbeddedGid};
  }
  if (has_grh) {
    return std::nullopt;
  }
  const auto request = message_of<wire::SidrReq>(mad);
  const ServiceDirectory& directory = directory_ == nullptr ? services_ : *directory_;
  if (const auto function = directory.find_address(request)) {
    return Owner{.function = *function, .reason = Reason::IpAddress};
  }
  if (const auto function = directory.find_listener(request)) {
    return Owner{.function = *function, .reason = Reason::ServiceListener};
  }
  return std::nullopt;
}

OrReason<std::optional<CmProxy::Owner>> CmProxy::steer_by_id(MadBytes& mad, Lid slid, Instant now) {
  const Row& row = *row_of(mad);
  CommunicationIdPair pair = communication_ids_of(mad);
  const bool is_sidr = row.inbound == InboundOwner::RequestId;
  std::uint32_t& own = is_sidr ? pair.local : pair.remote;
  CommunicationId* const id = own == 0 ? nullptr : ids_.find_physical(own);
  if (id == nullptr && row.attribute == CmAttribute::Rej && own == 0 &&
      message_of<wire::Rej>(mad).reason == wire::RejectReason::Timeout &&
      !planted(PlantedBug::RejTimeoutLost)) {
    // The peer gave its REQ up before it heard of an ID of ours (IBTA vol 1 §12.6.7).
    if (const auto known = peer_requests_.find({slid, pair.local}); known != peer_requests_.end()) {
      return Owner{.function = known->second.function, .reason = Reason::PeerCommunicationId};
    }
  }
  if (id == nullptr || id->is_orphan) {
    return std::unexpected(Reason::UnknownCommunicationId);
  }
  const bool names_peer = row.attribute == CmAttribute::Rep || row.attribute == CmAttribute::Mra;
  if (names_peer && id->peer == 0) {
    id->peer = pair.local;
  }
  if (row.attribute == CmAttribute::Rtu) {
    ids_.establish(*id);
  }
  if (row.ends && (is_sidr || is_about(*id, pair.local))) {
    ids_.schedule_release(*id, now);
  }
  own = id->local;
  set_communication_ids(mad, pair);
  return Owner{.function = id->function, .reason = Reason::CommunicationId};
}

void CmProxy::remember(const PeerKey& peer, FunctionId function, Instant now) {
  if (peer_requests_.size() < kPeerRequests || peer_requests_.contains(peer)) {
    peer_requests_[peer] = {.function = function, .expires = now + limits_.unanswered};
  }
}

void CmProxy::remove(FunctionId function, Instant now) {
  ids_.orphan(function, now);
  services_.remove(function);
  std::erase_if(peer_requests_,
                [&](const auto& entry) { return entry.second.function == function; });
}

void CmProxy::handle_timeout(Instant now) {
  ids_.handle_timeout(now);
  std::erase_if(peer_requests_, [&](const auto& entry) { return entry.second.expires <= now; });
}

Instant CmProxy::poll_deadline() const {
  Instant first = ids_.poll_deadline();
  for (const auto& [peer, request] : peer_requests_) {
    first = std::min(first, request.expires);
  }
  return first;
}

}  // namespace weft::sriov
