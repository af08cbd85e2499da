// Rejections: delivery of each reason (T-CM-7), and those sent by the manager itself (IBTA vol 1
// §12.6.7).

#include <gtest/gtest.h>

#include <numeric>

#include "cm/testing/network.h"
#include "verbs/mtu.h"

namespace weft::cm {
namespace {

using wire::CmAttribute;
using wire::RejectReason;

TEST(Reject, EveryReasonSurvivesTheWayWithItsInformation) {  // T-CM-7
  for (unsigned reason = 1; reason <= 35; ++reason) {
    TestCmNetwork net;
    (void)net.b().listener(0x1000);
    const CmId id = net.a().make();
    ASSERT_TRUE(net.a().cm.send_req(id, net.request(), net.now).has_value());
    net.run_shortly();
    std::vector<std::byte> information(reason == 4 ? 0 : 2 * reason + 2);
    for (std::size_t i = 0; i < information.size(); ++i) {
      information[i] = static_cast<std::byte>(i + reason);
    }
    ASSERT_TRUE(net.b()
                    .cm
                    .send_rej(net.b().newest,
                              {.reason = static_cast<RejectReason>(reason),
                               .additional_information = information},
                              net.now)
                    .has_value());
    net.run_shortly();
    ASSERT_EQ(net.a().count(CmEventType::RejReceived), 1U) << reason;
    const auto& reported =
        std::get<RejReceived>(net.a().last(CmEventType::RejReceived)->event.details);
    EXPECT_EQ(reported.reason, static_cast<RejectReason>(reason));
    EXPECT_EQ(reported.subject, wire::CmSubject::Req);
    EXPECT_EQ(reported.additional_information, information);
    EXPECT_EQ(net.a().state(id), reason == 10 ? State::Timewait : State::Idle);
  }
}

TEST(Reject, IsRefusedWithMoreInformationThanAMessageHolds) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), net.request(), net.now).has_value());
  net.run_shortly();
  const std::vector<std::byte> long_data(149);
  const auto reject = [&](const RejectParameters& parameters) {
    return net.b().cm.send_rej(net.b().newest, parameters, net.now);
  };
  EXPECT_EQ(reject({.private_data = long_data}).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(reject({.additional_information = ByteSpan{long_data}.first(73)}).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(net.b().state(net.b().newest), State::ReqRcvd);
  EXPECT_EQ(net.count(CmAttribute::Rej), 0U);
}

/// A REQ from a, modified, and b's answer.
class Asked {
 public:
  Asked() {
    (void)net.b().listener(0x1000);
    EXPECT_TRUE(net.a().cm.send_req(net.a().make(), net.request(), net.now).has_value());
    const auto packet = net.a().gsi.poll_transmit(net.now);
    req = message_of<wire::Req>(packet->bytes);
    mad = packet->bytes;
  }
  std::optional<wire::Rej> send() {
    return send(make_mad(CmAttribute::Req, header_of(mad).transaction_id, req));
  }
  std::optional<wire::Rej> send(const mad::MadBytes& bytes) {
    net.inject(net.b(), net.a().lid, bytes);
    const auto packet = net.b().gsi.poll_transmit(net.now);
    return packet ? std::optional{message_of<wire::Rej>(packet->bytes)} : std::nullopt;
  }
  TestCmNetwork net;
  wire::Req req;
  mad::MadBytes mad{};
};

TEST(Reject, PathsThatDoNotLeadHereAreToldWhatWould) {
  {
    Asked asked;
    asked.req.primary.remote_gid = {1, Guid{2}};
    const auto rej = asked.send();
    ASSERT_TRUE(rej.has_value());
    EXPECT_EQ(rej->reason, RejectReason::InvalidGid);
    EXPECT_EQ(rej->reject_info_length, 16);
    const Gid own = asked.net.b().gid();
    EXPECT_TRUE(
        std::ranges::equal(std::span{rej->additional_information}.first<16>(), own.octets()));
  }
  {
    Asked asked;
    asked.req.primary.remote_lid = Lid{0x99};
    const auto rej = asked.send();
    EXPECT_EQ(rej->reason, RejectReason::InvalidLid);
    EXPECT_EQ(rej->additional_information[1], static_cast<std::byte>(asked.net.b().lid.value()));
  }
  {
    Asked asked;
    asked.req.alternate.remote_gid = {1, Guid{2}};
    EXPECT_EQ(asked.send()->reason, RejectReason::InvalidAlternateGid);
    asked.req.alternate.remote_gid = asked.net.b().gid();
    asked.req.alternate.remote_lid = Lid{0x99};
    asked.req.alternate.is_subnet_local = true;
    EXPECT_EQ(asked.send()->reason, RejectReason::InvalidAlternateLid);
  }
  {
    Asked asked;
    asked.req.pkey = PKey{0x4444};
    EXPECT_EQ(asked.send()->reason, RejectReason::Unsupported);
  }
}

TEST(Reject, WhatNoQpCanBe) {
  Asked asked;
  asked.req.transport = wire::CmTransport::Rd;
  EXPECT_EQ(asked.send()->reason, RejectReason::InvalidTransportType);
  asked.req.transport = wire::CmTransport::Extended;
  EXPECT_EQ(asked.send()->reason, RejectReason::InvalidTransportType);
  asked.req.extended_transport = wire::CmExtendedTransport::Xrc;
  asked.req.path_mtu = 6;
  const auto rej = asked.send();
  EXPECT_EQ(rej->reason, RejectReason::InvalidPathMtu);
  EXPECT_EQ(rej->additional_information[0], std::byte{5});
  asked.req.path_mtu = 0;
  EXPECT_EQ(asked.send()->reason, RejectReason::InvalidPathMtu);
  asked.req.path_mtu = 5;
  EXPECT_FALSE(asked.send().has_value());
  EXPECT_EQ(asked.net.b().count(CmEventType::ReqReceived), 1U);
}

TEST(Reject, OtherClassVersionsByTheOneThatIsSpoken) {
  Asked asked;
  asked.mad[2] = std::byte{3};
  const auto rej = asked.send(asked.mad);
  ASSERT_TRUE(rej.has_value());
  EXPECT_EQ(rej->reason, RejectReason::InvalidClassVersion);
  EXPECT_EQ(rej->additional_information[0], std::byte{wire::kCmClassVersion});
  EXPECT_EQ(rej->remote_communication_id, asked.req.local_communication_id);
}

TEST(Reject, RepOfNoConnectionByItsCommunicationId) {
  TestCmNetwork net;
  const wire::Rep rep{.local_communication_id = 5, .remote_communication_id = 6};
  net.inject(net.b(), net.a().lid, make_mad(CmAttribute::Rep, 1, rep));
  const auto packet = net.b().gsi.poll_transmit(net.now);
  ASSERT_TRUE(packet.has_value());
  const auto rej = message_of<wire::Rej>(packet->bytes);
  EXPECT_EQ(rej.reason, RejectReason::InvalidCommunicationId);
  EXPECT_EQ(rej.subject, wire::CmSubject::Rep);
  EXPECT_EQ(rej.local_communication_id, 6U);
  EXPECT_EQ(rej.remote_communication_id, 5U);
}

TEST(Reject, IsNeverAnsweredItself) {
  TestCmNetwork net;
  for (const auto attribute :
       {CmAttribute::Rej, CmAttribute::Rtu, CmAttribute::Drep, CmAttribute::Mra, CmAttribute::Apr,
        CmAttribute::SidrRep, CmAttribute::Lap}) {
    net.inject(net.b(), net.a().lid, make_mad(attribute, 1, wire::Rtu{1, 2, {}}));
    EXPECT_FALSE(net.b().gsi.poll_transmit(net.now).has_value());
  }
  EXPECT_EQ(net.b().cm.counters().unmatched, 7U);
}

TEST(Reject, CallsWhoseNumbersDoNotFit) {  // R-CM-7
  TestCmNetwork net;
  const CmId id = net.a().make();
  const auto refused = [&](auto change) {
    auto request = net.request();
    change(request);
    const auto result = net.a().cm.send_req(id, request, net.now);
    return result.has_value() ? ErrorCode::Exists : result.error().code;
  };
  constexpr auto kInvalid = ErrorCode::InvalidArgument;
  const std::vector<std::byte> long_data(93);
  EXPECT_EQ(refused([](auto& r) { r.retry_count = 8; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.rnr_retry_count = 8; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.max_cm_retries = 16; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.local_cm_response_timeout = 32; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.remote_cm_response_timeout = 32; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.primary.packet_life_time = 32; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.qpn = Qpn{1U << 24}; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.ece.vendor_id = 1U << 24; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.qp_type = QpType::Ud; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.primary = {}; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.primary.slid = Lid{77}; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.primary.pkey = PKey{0x5555}; }), kInvalid);
  EXPECT_EQ(refused([&](auto& r) { r.private_data = long_data; }), kInvalid);
  EXPECT_EQ(refused([](auto& r) { r.primary.sgid = {1, Guid{1}}; }), ErrorCode::NoSuchDevice);
  EXPECT_EQ(refused([](auto& r) {
              r.alternate = r.primary;
              r.alternate->mtu = verbs::Mtu::Mtu256;
            }),
            kInvalid);
  EXPECT_EQ(net.a().state(id), State::Idle);
  EXPECT_FALSE(net.a().gsi.poll_transmit(net.now).has_value());
}

}  // namespace
}  // namespace weft::cm
