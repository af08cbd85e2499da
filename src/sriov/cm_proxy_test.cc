#include "sriov/cm_proxy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "sriov/testing/mads.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"

namespace weft::sriov {
namespace {

using testing::make_cm;
using wire::CmAttribute;

constexpr Instant kStart{};
constexpr FunctionId kA{1};
constexpr FunctionId kB{2};
constexpr Lid kPeer{9};
constexpr std::uint32_t kForced = 7;    ///< the local ID of every function
constexpr std::uint32_t kPeersId = 70;  ///< and of the peer

class SriovCm : public ::testing::Test {
 protected:
  SriovCm() {
    EXPECT_TRUE(gids.set(kA, Guid{0xA}).has_value());
    EXPECT_TRUE(gids.set(kB, Guid{0xB}).has_value());
  }

  /// The IDs of a function's message on the wire; none if it was refused.
  template <class Message>
  std::optional<CommunicationIdPair> send(FunctionId from, CmAttribute attribute,
                                          const Message& message, Instant now = kStart) {
    MadBytes mad = make_cm(attribute, message);
    const auto sent = proxy.translate_outbound(from, mad, now);
    refused = sent ? std::nullopt : std::optional{sent.error()};
    return sent ? std::optional{communication_ids_of(mad)} : std::nullopt;
  }

  /// Who gets a peer's message; `received` then has the IDs in it.
  template <class Message>
  std::optional<CmProxy::Owner> receive(CmAttribute attribute, const Message& message,
                                        Instant now = kStart, bool has_grh = false) {
    MadBytes mad = make_cm(attribute, message);
    const auto owner = proxy.steer_inbound(mad, kPeer, has_grh, gids, now);
    refused = owner ? std::nullopt : std::optional{owner.error()};
    received = communication_ids_of(mad);
    return owner.value_or(std::nullopt);
  }

  static wire::Req req_to(std::uint64_t guid) {
    wire::Req req{.local_communication_id = kPeersId};
    req.primary.remote_gid = Gid{kDefaultGidPrefix, Guid{guid}};
    req.primary.local_gid = Gid{kDefaultGidPrefix, Guid{0xB}};  // the wrong one to look at
    return req;
  }

  GidTable gids{kDefaultGidPrefix};
  CmProxy proxy{{}, 1000, 16};
  std::optional<Reason> refused;
  CommunicationIdPair received;
};

TEST_F(SriovCm, ConnectionsWithEqualIdsArriveAtTheirFunctions) {  // R-SRI-7
  const auto a = send(kA, CmAttribute::Req, wire::Req{.local_communication_id = kForced});
  const auto b = send(kB, CmAttribute::Req, wire::Req{.local_communication_id = kForced});
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->local, b->local);
  // Retransmission: the same ID.
  EXPECT_EQ(send(kA, CmAttribute::Req, wire::Req{.local_communication_id = kForced})->local,
            a->local);
  for (const auto& [function, id] : {
           std::pair{kA, a->local},
           std::pair{kB, b->local}
  }) {
    const auto owner = receive(CmAttribute::Rep, wire::Rep{.local_communication_id = kPeersId,
                                                           .remote_communication_id = id});
    EXPECT_EQ(owner, (CmProxy::Owner{function, Reason::CommunicationId}));
    EXPECT_EQ(received.remote, kForced);
    EXPECT_EQ(received.local, kPeersId);
    const auto rtu = send(function, CmAttribute::Rtu, wire::Rtu{kForced, kPeersId});
    ASSERT_TRUE(rtu.has_value());
    EXPECT_EQ(rtu->local, id);
    EXPECT_EQ(rtu->remote, kPeersId);
  }
}

TEST_F(SriovCm, ARequestGoesByTheGidInIt) {  // R-SRI-7
  EXPECT_EQ(receive(CmAttribute::Req, req_to(0xA)), (CmProxy::Owner{kA, Reason::EmbeddedGid}));
  EXPECT_EQ(received.local, kPeersId);
  EXPECT_EQ(receive(CmAttribute::Req, req_to(0xC)), std::nullopt);
  EXPECT_EQ(refused, Reason::UnknownEmbeddedGid);
}

/// The peer gives up before it hears of the answer, so that nothing on the wire names its ID.
TEST_F(SriovCm, ARequestHasAnotherIdThanAnAnswerThatWasGivenUp) {  // R-SRI-7
  std::ignore = receive(CmAttribute::Req, req_to(0xA));
  const auto rep =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  EXPECT_EQ(receive(CmAttribute::Rej, wire::Rej{.local_communication_id = kPeersId,
                                                .reason = wire::RejectReason::Timeout}),
            (CmProxy::Owner{kA, Reason::PeerCommunicationId}));
  const auto req = send(kA, CmAttribute::Req, wire::Req{.local_communication_id = kForced});
  ASSERT_TRUE(rep && req);
  EXPECT_NE(req->local, rep->local);
}

TEST_F(SriovCm, AnAnswerToARequestHasAnIdOfItsOwn) {
  std::ignore = receive(CmAttribute::Req, req_to(0xA));
  const auto mra = send(kA, CmAttribute::Mra, wire::Mra{kForced, kPeersId});
  const auto rep =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  ASSERT_TRUE(mra && rep);
  EXPECT_EQ(mra->local, rep->local);
  EXPECT_NE(rep->local, kForced);
  EXPECT_EQ(receive(CmAttribute::Rtu, wire::Rtu{kPeersId, rep->local}),
            (CmProxy::Owner{kA, Reason::CommunicationId}));
  EXPECT_EQ(received.remote, kForced);
}

TEST_F(SriovCm, OtherMessagesNeedAKnownId) {
  EXPECT_EQ(send(kA, CmAttribute::Dreq, wire::Dreq{kForced, kPeersId}), std::nullopt);
  EXPECT_EQ(refused, Reason::UnknownLocalCommunicationId);
  EXPECT_EQ(receive(CmAttribute::Dreq, wire::Dreq{kPeersId, 12345}), std::nullopt);
  EXPECT_EQ(refused, Reason::UnknownCommunicationId);
}

TEST_F(SriovCm, ARejectOfAnUnknownIdIsMapped) {  // mlx4 lets it pass unmapped
  const auto rej = send(kA, CmAttribute::Rej, wire::Rej{kForced, kPeersId});
  ASSERT_TRUE(rej.has_value());
  EXPECT_NE(rej->local, kForced);
  EXPECT_EQ(send(kA, CmAttribute::Rej, wire::Rej{0, kPeersId})->local, 0U);
  EXPECT_EQ(proxy.ids().size(), 1U);
  proxy.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_EQ(proxy.ids().size(), 0U);
}

TEST_F(SriovCm, ADreqEndsAConnectionAfterTimeWait) {
  const auto rep =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  std::ignore = receive(CmAttribute::Rtu, wire::Rtu{kPeersId, rep->local});
  EXPECT_EQ(proxy.poll_deadline(), Instant::never());
  std::ignore = receive(CmAttribute::Dreq, wire::Dreq{kPeersId, rep->local});
  const Instant later = kStart + Duration::seconds(29);
  proxy.handle_timeout(later);
  // The DREP was lost: the DREQ comes again, and is answered.
  EXPECT_EQ(receive(CmAttribute::Dreq, wire::Dreq{kPeersId, rep->local}, later),
            (CmProxy::Owner{kA, Reason::CommunicationId}));
  EXPECT_TRUE(send(kA, CmAttribute::Drep, wire::Drep{kForced, kPeersId}, later).has_value());
  proxy.handle_timeout(later + Duration::seconds(30));
  EXPECT_EQ(proxy.ids().size(), 0U);
}

TEST_F(SriovCm, AnotherPeersDreqDoesNotEndAConnection) {
  const auto rep =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  std::ignore = receive(CmAttribute::Rtu, wire::Rtu{kPeersId, rep->local});
  EXPECT_TRUE(receive(CmAttribute::Dreq, wire::Dreq{kPeersId + 1, rep->local}).has_value());
  EXPECT_EQ(proxy.poll_deadline(), Instant::never());
}

TEST_F(SriovCm, ANumberThatIsUsedAnewLeavesTheOldConnectionItsOwn) {
  const auto old =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  std::ignore = send(kA, CmAttribute::Dreq, wire::Dreq{kForced, kPeersId});
  const auto anew = send(kA, CmAttribute::Req, wire::Req{.local_communication_id = kForced});
  ASSERT_TRUE(old && anew);
  EXPECT_NE(anew->local, old->local);
  // Nothing is known of the new peer yet: what is for the old one has the old ID.
  EXPECT_EQ(send(kA, CmAttribute::Drep, wire::Drep{kForced, kPeersId})->local, old->local);
  std::ignore = receive(CmAttribute::Rep, wire::Rep{.local_communication_id = 71,
                                                    .remote_communication_id = anew->local});
  // The old peer's DREQ, repeated, is answered from the old ID.
  EXPECT_EQ(send(kA, CmAttribute::Drep, wire::Drep{kForced, kPeersId})->local, old->local);
  EXPECT_EQ(send(kA, CmAttribute::Rtu, wire::Rtu{kForced, 71})->local, anew->local);
}

TEST_F(SriovCm, ARejForATimeoutGoesToWhoHadTheRequest) {
  std::ignore = receive(CmAttribute::Req, req_to(0xB));
  wire::Rej rej{.local_communication_id = kPeersId};
  rej.reason = wire::RejectReason::Timeout;
  EXPECT_EQ(receive(CmAttribute::Rej, rej), (CmProxy::Owner{kB, Reason::PeerCommunicationId}));
  rej.local_communication_id = kPeersId + 1;
  EXPECT_EQ(receive(CmAttribute::Rej, rej), std::nullopt);
  proxy.handle_timeout(kStart + Duration::seconds(300));
  rej.local_communication_id = kPeersId;
  EXPECT_EQ(receive(CmAttribute::Rej, rej), std::nullopt);
}

TEST_F(SriovCm, ASidrRequestIsNotReadAsAReq) {  // mlx4 looks for a GID that is not there
  wire::RdmaCmAddress address{};
  address[15] = std::byte{1};
  ASSERT_TRUE(proxy.services().add_address(kA, address).has_value());
  ASSERT_TRUE(proxy.services().add_listener(kB, 5, kDefaultPKey).has_value());
  wire::RdmaCmHeader header;
  header.destination_address = address;
  wire::SidrReq request{.request_id = kPeersId, .pkey = kDefaultPKey, .service_id = 0x0111'0007};
  std::ranges::copy(wire::pack(header), request.private_data.begin());
  // Where a REQ has its GID stands B's.
  const Gid other{kDefaultGidPrefix, Guid{0xB}};
  std::ranges::copy(other.octets(), request.private_data.begin() + 56);
  EXPECT_EQ(receive(CmAttribute::SidrReq, request), (CmProxy::Owner{kA, Reason::IpAddress}));
  EXPECT_EQ(receive(CmAttribute::SidrReq, request, kStart, true), std::nullopt);  // the GRH holds
  EXPECT_EQ(refused, std::nullopt);
  request.service_id = 5;
  EXPECT_EQ(receive(CmAttribute::SidrReq, request), (CmProxy::Owner{kB, Reason::ServiceListener}));
  request.service_id = 6;
  EXPECT_EQ(receive(CmAttribute::SidrReq, request), std::nullopt);
  EXPECT_EQ(refused, std::nullopt);
}

TEST_F(SriovCm, SidrRequestIdsAreMappedAndEndWithTheAnswer) {
  const wire::SidrReq request{.request_id = kForced, .pkey = kDefaultPKey, .service_id = 5};
  const auto a = send(kA, CmAttribute::SidrReq, request);
  const auto b = send(kB, CmAttribute::SidrReq, request);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->local, b->local);
  EXPECT_EQ(receive(CmAttribute::SidrRep, wire::SidrRep{.request_id = b->local}),
            (CmProxy::Owner{kB, Reason::CommunicationId}));
  EXPECT_EQ(received.local, kForced);
  proxy.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_EQ(proxy.ids().size(), 1U);  // A's waits for its answer
  // An answer of a function keeps the peer's ID.
  EXPECT_EQ(send(kA, CmAttribute::SidrRep, wire::SidrRep{.request_id = kPeersId})->local, kPeersId);
}

TEST_F(SriovCm, AFunctionThatIsGoneGetsNothing) {
  const auto rep =
      send(kA, CmAttribute::Rep,
           wire::Rep{.local_communication_id = kForced, .remote_communication_id = kPeersId});
  proxy.remove(kA, kStart);
  EXPECT_EQ(receive(CmAttribute::Rtu, wire::Rtu{kPeersId, rep->local}), std::nullopt);
  EXPECT_EQ(refused, Reason::UnknownCommunicationId);
  proxy.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_EQ(proxy.ids().size(), 0U);
  proxy.check_invariants();
}

TEST_F(SriovCm, ClassPortInfoIsNotAMessageOfAConnection) {
  MadBytes mad = testing::make_mad(wire::ManagementClass::ComMgt, wire::MadMethod::Get, 1, 5);
  const MadBytes before = mad;
  EXPECT_TRUE(proxy.translate_outbound(kA, mad, kStart).has_value());
  const auto owner = proxy.steer_inbound(mad, kPeer, false, gids, kStart);
  ASSERT_TRUE(owner.has_value());
  EXPECT_FALSE(owner->has_value());
  EXPECT_EQ(mad, before);
}

}  // namespace
}  // namespace weft::sriov
