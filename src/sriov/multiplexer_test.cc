#include "sriov/multiplexer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "sriov/group_record.h"
#include "sriov/testing/mads.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/mad/port_info.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/smp.h"

namespace weft::sriov {
namespace {

using testing::header_of;
using testing::make_mad;
using wire::MadMethod;
using wire::ManagementClass;
using wire::SaAttribute;

constexpr Instant kStart{};
constexpr Lid kManager{9};
constexpr Lid kOwn{1};
constexpr FunctionId kA{1};
constexpr FunctionId kB{2};
constexpr std::uint64_t kForced = 7;
constexpr auto kPathRecord = static_cast<std::uint16_t>(SaAttribute::PathRecord);

class SriovPortSharing : public ::testing::Test {
 protected:
  SriovPortSharing() {
    mux.set_manager(kManager, kOwn);
    mux.set_pkey_table({kDefaultPKey, PKey{0x8001}});
    wire::PortInfo info;
    info.port_state = wire::LinkState::Active;
    set_port_info(info);
  }

  void set_port_info(const wire::PortInfo& info) {
    MadBytes mad = make_mad(ManagementClass::SubnLidRouted, MadMethod::GetResp,
                            static_cast<std::uint16_t>(wire::SmpAttribute::PortInfo), 1);
    std::ranges::copy(wire::pack(info), mad.begin() + wire::kSmpDataAt);
    mux.observe_smp(mad, MadMethod::Set, now);
  }

  static Guid guid_of(FunctionId function) { return Guid{0x100U + function.value()}; }
  static Gid gid_of(FunctionId function) { return Gid{kDefaultGidPrefix, guid_of(function)}; }

  /// A function whose GUID SA has registered.
  void add(FunctionId function, FunctionOptions options = {}) {
    options.guid = guid_of(function);
    ASSERT_TRUE(mux.add_function(function, options, now).has_value());
    while (const auto asked = mux.poll_wire(now)) {
      InboundMad answer{.slid = kManager, .bytes = asked->bytes};
      wire::MadHeader header = header_of(answer.bytes);
      header.method = MadMethod::GetResp;
      std::ranges::copy(wire::pack(header), answer.bytes.begin());
      EXPECT_EQ(mux.handle_wire(answer, now).action(), Action::Answer);
    }
  }

  /// What becomes of a MAD that a function sends.
  Decision send(FunctionId from, const MadBytes& mad, wire::TunnelSendHeader header = {},
                SpecialQp qp = SpecialQp::Gsi) {
    header.remote_qpn = header.remote_qpn == Qpn{} ? kQp1 : header.remote_qpn;
    EXPECT_TRUE(mux.post_send(from, qp, mux.proxy_qpn(from, qp), {.header = header, .mad = mad})
                    .has_value());
    return mux.serve_tunnel(now).value();
  }
  Reason reason_of(FunctionId from, ManagementClass mgmt_class, MadMethod method,
                   std::uint16_t attribute = kPathRecord) {
    const Reason reason = send(from, make_mad(mgmt_class, method, attribute, kForced)).reason;
    while (mux.poll_wire(now)) {
    }
    return reason;
  }

  std::optional<wire::TunnelReceive> received(FunctionId function) {
    return mux.poll_receive(function, SpecialQp::Gsi);
  }
  /// True if a MAD reached this function and no other.
  bool reached_only(FunctionId function) {
    bool is_right = received(function).has_value();
    for (std::uint16_t other = 0; other < 8; ++other) {
      is_right = is_right && !received(FunctionId{other}).has_value();
    }
    return is_right;
  }
  static wire::Grh to(const Gid& dgid) {
    wire::Grh grh;
    grh.dgid = dgid;
    return grh;
  }

  Instant now = kStart;
  Multiplexer mux{
      {.port_guid = Guid{0x100}, .first_communication_id = 5000},
      kStart
  };
};

TEST_F(SriovPortSharing, AMadPassesItsFunctionsTunnelBothWays) {  // R-SRI-1
  add(kA);
  std::vector<TunnelDatagram> seen;
  std::vector<std::vector<std::byte>> payloads;
  mux.set_tunnel_tap([&](const TunnelDatagram& datagram) {
    seen.push_back(datagram);
    payloads.emplace_back(datagram.payload.begin(), datagram.payload.end());
  });
  const MadBytes asked = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  send(kA, asked, {.address = {.dlid = kManager}, .pkey_index = 0});
  InboundMad answer{.slid = kManager, .bytes = mux.poll_wire(now).value().bytes};
  wire::MadHeader header = header_of(answer.bytes);
  header.method = MadMethod::GetResp;
  std::ranges::copy(wire::pack(header), answer.bytes.begin());
  EXPECT_EQ(mux.handle_wire(answer, now).reason, Reason::TransactionId);
  send(kPhysicalFunction, asked);  // whose QP1 is the real one
  ASSERT_EQ(seen.size(), 2U);
  const Qpn proxy = mux.proxy_qpn(kA, SpecialQp::Gsi);
  EXPECT_EQ(seen[0].source_qp, proxy);
  EXPECT_EQ(seen[1].dest_qp, proxy);
  EXPECT_EQ(seen[0].dest_qp, seen[1].source_qp);
  EXPECT_NE(seen[0].dest_qp, proxy);
  EXPECT_EQ(seen[0].qkey, seen[1].qkey);
  EXPECT_FALSE(seen[0].is_to_function);
  EXPECT_TRUE(seen[1].is_to_function);
  ASSERT_EQ(payloads[0].size(), wire::kSizeOf<wire::TunnelSend>);
  ASSERT_EQ(payloads[1].size(), wire::kSizeOf<wire::TunnelReceive>);
  const auto sent = wire::unpack<wire::TunnelSend>(
      std::span{payloads[0]}.first<wire::kSizeOf<wire::TunnelSend>>());
  EXPECT_EQ(sent.header.address.dlid, kManager);
  EXPECT_EQ(sent.mad, asked);
  const auto came = wire::unpack<wire::TunnelReceive>(
      std::span{payloads[1]}.first<wire::kSizeOf<wire::TunnelReceive>>());
  EXPECT_EQ(came.header.slid, kManager);
  EXPECT_EQ(header_of(came.mad).transaction_id, kForced);  // its own again
}

TEST_F(SriovPortSharing, EqualTransactionIdsGoToTheirOwners) {  // R-SRI-4, R-SRI-6
  add(kA);
  add(kB);
  std::vector<MadBytes> asked;
  for (const FunctionId function : {kA, kB, kPhysicalFunction}) {
    const auto decision =
        send(function, make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced));
    EXPECT_EQ(decision.reason, Reason::Translated);
    const auto mad = mux.poll_wire(now);
    ASSERT_TRUE(mad.has_value());
    EXPECT_EQ(mad->source_gid_index, function.value());
    asked.push_back(mad->bytes);
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const FunctionId function = std::array{kA, kB, kPhysicalFunction}[i];
    wire::MadHeader header = header_of(asked[i]);
    header.method = MadMethod::GetResp;
    std::ranges::copy(wire::pack(header), asked[i].begin());
    const auto decision = mux.handle_wire({.slid = kManager, .bytes = asked[i]}, now);
    EXPECT_EQ(decision.function, function);
    EXPECT_EQ(decision.reason, Reason::TransactionId);
    const auto got = received(function);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(header_of(got->mad).transaction_id, kForced);
    EXPECT_EQ(got->header.slid, kManager);
  }
  EXPECT_FALSE(received(kA).has_value());
  EXPECT_FALSE(received(kB).has_value());
}

TEST_F(SriovPortSharing, ATopByteInATransactionIdIsDroppedAndCounted) {  // part of T-SRI-3
  add(kA);
  const auto decision = send(
      kA, make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, 0x0200'0000'0000'0007));
  EXPECT_EQ(decision.reason, Reason::TransactionIdTagged);
  EXPECT_EQ(decision.action(), Action::Drop);
  EXPECT_FALSE(mux.poll_wire(now).has_value());
  EXPECT_EQ(mux.counters().of(kA, Reason::TransactionIdTagged), 1U);
  EXPECT_EQ(mux.counters().report(kA),
            "VF 1: 1 dropped: the transaction ID's top byte is not zero\n");
}

// Part of T-SRI-2: there is no wire here but the queue to it.
TEST_F(SriovPortSharing, AVirtualQp0SendsNothingAndCompletes) {  // R-SRI-3
  add(kA);
  const auto smp = make_mad(ManagementClass::SubnLidRouted, MadMethod::Get, 0x11, kForced);
  EXPECT_EQ(send(kA, smp, {}, SpecialQp::Smi).action(), Action::Discard);
  EXPECT_EQ(mux.tunnel(kA, SpecialQp::Smi)->completed_sends(), 1U);
  EXPECT_FALSE(mux.poll_wire(now).has_value());
  // QP0 of the wire is the physical function's, whoever has the GID.
  EXPECT_EQ(
      mux.handle_wire({.qp = SpecialQp::Smi, .grh = to(gid_of(kA)), .bytes = smp}, now).function,
      kPhysicalFunction);
  EXPECT_TRUE(mux.poll_receive(kPhysicalFunction, SpecialQp::Smi).has_value());
  EXPECT_FALSE(mux.poll_receive(kA, SpecialQp::Smi).has_value());
  EXPECT_EQ(send(kPhysicalFunction, smp, {}, SpecialQp::Smi).reason, Reason::Translated);
  EXPECT_EQ(mux.poll_wire(now)->qp, SpecialQp::Smi);
}

TEST_F(SriovPortSharing, AFunctionMaySendOnlyWhatIsItsOwn) {
  add(kA);
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  ASSERT_TRUE(mux.post_send(kA, SpecialQp::Gsi, mux.proxy_qpn(kB, SpecialQp::Gsi),
                            {.header = {.remote_qpn = kQp1}, .mad = query})
                  .has_value());
  EXPECT_EQ(mux.serve_tunnel(now)->reason, Reason::ForeignProxyQp);
  EXPECT_EQ(send(kA, query, {.pkey_index = 1}).reason, Reason::InvalidPKeyIndex);
  wire::TunnelSendHeader header;
  header.address.is_global = true;
  header.address.gid_index = 2;
  EXPECT_EQ(send(kA, query, header).reason, Reason::ForeignSourceGid);
  ASSERT_TRUE(mux.post_send(kA, SpecialQp::Gsi, mux.proxy_qpn(kA, SpecialQp::Gsi),
                            {.header = {.remote_qpn = kQp0}, .mad = query})
                  .has_value());
  EXPECT_EQ(mux.serve_tunnel(now)->reason, Reason::DestinationQp0);
  EXPECT_FALSE(mux.poll_wire(now).has_value());
}

TEST_F(SriovPortSharing, ClassesAndMethodsAreAllowedByATable) {
  add(kA);
  add(kB, {.serves_device_management = true});
  const auto ask = [&](ManagementClass mgmt_class, MadMethod method,
                       std::uint16_t attribute = kPathRecord) {
    return reason_of(kA, mgmt_class, method, attribute);
  };
  EXPECT_EQ(ask(ManagementClass::SubnAdm, MadMethod::GetTable), Reason::Translated);
  EXPECT_EQ(ask(ManagementClass::SubnAdm, MadMethod::GetResp), Reason::MethodNotAllowed);
  EXPECT_EQ(ask(ManagementClass::SubnAdm, MadMethod::Set,
                static_cast<std::uint16_t>(SaAttribute::GuidInfoRecord)),
            Reason::MethodNotAllowed);
  EXPECT_EQ(ask(ManagementClass::DevMgt, MadMethod::Get), Reason::Translated);
  EXPECT_EQ(ask(ManagementClass::DevMgt, MadMethod::Set), Reason::Translated);
  EXPECT_EQ(ask(ManagementClass::DevMgt, MadMethod::GetResp), Reason::MethodNotAllowed);
  EXPECT_EQ(reason_of(kB, ManagementClass::DevMgt, MadMethod::GetResp), Reason::Translated);
  EXPECT_EQ(ask(ManagementClass::Perf, MadMethod::Get), Reason::ClassNotAllowed);
  EXPECT_EQ(ask(ManagementClass::SubnLidRouted, MadMethod::Get), Reason::ClassNotAllowed);
  EXPECT_EQ(ask(ManagementClass::SubnDirectedRoute, MadMethod::Set), Reason::ClassNotAllowed);
  EXPECT_EQ(reason_of(kPhysicalFunction, ManagementClass::Perf, MadMethod::Get),
            Reason::Translated);
}

// T-SRI-5
TEST_F(SriovPortSharing, RequestsGoByTheirGids) {
  add(kA);
  add(kB);
  const auto cm = [&](const auto& message, wire::CmAttribute attribute,
                      std::optional<wire::Grh> grh) {
    return mux.handle_wire(
        {.slid = Lid{4}, .grh = grh, .bytes = testing::make_cm(attribute, message)}, now);
  };
  // A GRH to an unknown GID.
  EXPECT_EQ(cm(wire::SidrReq{}, wire::CmAttribute::SidrReq, to(Gid{kDefaultGidPrefix, Guid{0xBAD}}))
                .reason,
            Reason::UnknownDestinationGid);
  EXPECT_FALSE(reached_only(kPhysicalFunction));
  // A REQ for B's GID arrives at B only.
  wire::Req req{.local_communication_id = 3};
  req.primary.remote_gid = gid_of(kB);
  EXPECT_EQ(cm(req, wire::CmAttribute::Req, std::nullopt).reason, Reason::EmbeddedGid);
  EXPECT_TRUE(reached_only(kB));
  // A SIDR_REQ with a GRH likewise, whatever lies where a REQ has its GID.
  wire::SidrReq sidr{.request_id = 3, .service_id = 5};
  std::ranges::copy(gid_of(kA).octets(), sidr.private_data.begin() + 56);
  EXPECT_EQ(cm(sidr, wire::CmAttribute::SidrReq, to(gid_of(kB))).reason, Reason::DestinationGid);
  EXPECT_TRUE(reached_only(kB));
  // Without one it is the physical function's.
  EXPECT_EQ(cm(sidr, wire::CmAttribute::SidrReq, std::nullopt).reason, Reason::DefaultOwner);
  EXPECT_TRUE(reached_only(kPhysicalFunction));
}

TEST_F(SriovPortSharing, AResponseForTwoFunctionsIsForNone) {
  add(kA);
  add(kB);
  MadBytes answer =
      make_mad(ManagementClass::SubnAdm, MadMethod::GetResp, kPathRecord, with_tag(1, kForced));
  EXPECT_EQ(mux.handle_wire({.grh = to(gid_of(kB)), .bytes = answer}, now).reason,
            Reason::ConflictingOwners);
  EXPECT_EQ(mux.handle_wire({.grh = to(gid_of(kA)), .bytes = answer}, now).function, kA);
  answer =
      make_mad(ManagementClass::SubnAdm, MadMethod::GetResp, kPathRecord, with_tag(99, kForced));
  EXPECT_EQ(mux.handle_wire({.bytes = answer}, now).reason, Reason::UnknownTransactionId);
}

TEST_F(SriovPortSharing, NobodyElseAnswersInSasPlace) {
  add(kA);
  const auto forged =
      make_mad(ManagementClass::SubnAdm, MadMethod::GetResp, 0x38, with_tag(kMulticastTag, 1));
  EXPECT_EQ(mux.handle_wire({.slid = Lid{66}, .bytes = forged}, now).reason,
            Reason::UnknownTransactionId);
}

TEST_F(SriovPortSharing, InboundClassesOfAVirtualFunctionAreFew) {
  add(kA);
  const auto decide = [&](ManagementClass mgmt_class, MadMethod method) {
    return mux
        .handle_wire({.grh = to(gid_of(kA)), .bytes = make_mad(mgmt_class, method, 0x10, kForced)},
                     now)
        .reason;
  };
  EXPECT_EQ(decide(ManagementClass::Perf, MadMethod::Get), Reason::InboundClassNotAllowed);
  EXPECT_EQ(decide(ManagementClass::DevMgt, MadMethod::Get), Reason::InboundClassNotAllowed);
  EXPECT_EQ(decide(ManagementClass::SubnAdm, MadMethod::Get), Reason::InboundClassNotAllowed);
  EXPECT_EQ(decide(ManagementClass::SubnDirectedRoute, MadMethod::Get),
            Reason::InboundClassNotAllowed);
  EXPECT_EQ(decide(ManagementClass::SubnAdm, MadMethod::Report), Reason::DestinationGid);
}

TEST_F(SriovPortSharing, APartitionThatAFunctionDoesNotHaveIsNotDelivered) {
  add(kA, {.pkeys = {1}});
  const auto report = make_mad(ManagementClass::SubnAdm, MadMethod::Report, 2, kForced);
  EXPECT_EQ(
      mux.handle_wire({.pkey = kDefaultPKey, .grh = to(gid_of(kA)), .bytes = report}, now).reason,
      Reason::NoMatchingPKey);
  EXPECT_EQ(
      mux.handle_wire({.pkey = PKey{0x0001}, .grh = to(gid_of(kA)), .bytes = report}, now).action(),
      Action::Deliver);
  EXPECT_EQ(received(kA)->header.pkey_index, 0);  // its own index, not the port's
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  EXPECT_EQ(send(kA, query).action(), Action::SendToWire);
  EXPECT_EQ(mux.poll_wire(now)->pkey_index, 1);
}

TEST_F(SriovPortSharing, AFloodCostsOnlyItself) {
  add(kA, {.mad_interval = Duration::milliseconds(10), .mad_burst = 2});
  add(kB);
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(mux.post_send(kA, SpecialQp::Gsi, mux.proxy_qpn(kA, SpecialQp::Gsi),
                              {.header = {.remote_qpn = kQp1}, .mad = query})
                    .has_value());
  }
  ASSERT_TRUE(mux.post_send(kB, SpecialQp::Gsi, mux.proxy_qpn(kB, SpecialQp::Gsi),
                            {.header = {.remote_qpn = kQp1}, .mad = query})
                  .has_value());
  EXPECT_EQ(mux.serve_tunnel(now)->function, kA);
  EXPECT_EQ(mux.serve_tunnel(now)->function, kB);  // in turns
  while (mux.serve_tunnel(now)) {
  }
  EXPECT_EQ(mux.counters().of(kA, Reason::RateExceeded), 98U);
  EXPECT_EQ(mux.counters().of(kB, Reason::RateExceeded), 0U);
}

TEST_F(SriovPortSharing, WhatAFunctionMayDoCanBeChanged) {
  add(kA);
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  EXPECT_TRUE(mux.change_function(kA, {.mad_interval = Duration::seconds(1), .mad_burst = 1}));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(mux.post_send(kA, SpecialQp::Gsi, mux.proxy_qpn(kA, SpecialQp::Gsi),
                              {.header = {.remote_qpn = kQp1}, .mad = query}));
  }
  while (mux.serve_tunnel(now)) {
  }
  EXPECT_EQ(mux.counters().of(kA, Reason::RateExceeded), 2U);
  EXPECT_EQ(mux.decisions().entries().back().decision.reason, Reason::RateExceeded);
  EXPECT_EQ(mux.change_function(kA, {.pkeys = {9}}).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(mux.change_function(kB, {}).error().code, ErrorCode::NotFound);
  EXPECT_EQ(mux.gid_of(kA), gid_of(kA));
}

TEST_F(SriovPortSharing, APortBecomesActiveWithItsGuid) {
  ASSERT_TRUE(mux.add_function(kA, {.guid = guid_of(kA)}, now).has_value());
  EXPECT_EQ(mux.port_state(kA), FunctionPortState::PendingUp);
  EXPECT_FALSE(mux.poll_wire(now)->bytes == MadBytes{});
  add(kB);
  EXPECT_EQ(mux.port_state(kB), FunctionPortState::PendingUp);  // the block's request is under way
  now = now + Duration::seconds(2);
  mux.handle_timeout(now);
  now = now + Duration::seconds(1);
  mux.handle_timeout(now);
  add(FunctionId{3});
  EXPECT_EQ(mux.port_state(kA), FunctionPortState::Active);
  EXPECT_EQ(mux.gid_of(kA), gid_of(kA));
  std::vector<verbs::AsyncEventType> told;
  while (const auto event = mux.poll_event()) {
    if (event->function == kA) {
      told.push_back(event->event);
    }
  }
  EXPECT_EQ(told,
            (std::vector{verbs::AsyncEventType::PortActive, verbs::AsyncEventType::GidChange}));
}

// Part of T-SRI-6: a function that is gone, without a process.
TEST_F(SriovPortSharing, OfAFunctionThatIsGoneNothingIsLeft) {
  add(kA);
  add(kB);
  for (const FunctionId function : {kA, kB}) {
    wire::McMemberRecord record{
        .mgid = Gid{0xFF12'401B'FFFF'0000, Guid{function.value()}},
        .port_gid = gid_of(function),
        .join_state = wire::JoinState::FullMember
    };
    const auto join = testing::make_sa(MadMethod::Set, SaAttribute::McMemberRecord, record,
                                       kMembershipMask, kForced);
    EXPECT_EQ(send(function, wire::pack(join)).reason, Reason::Aggregated);
    InboundMad answer{.slid = kManager, .bytes = mux.poll_wire(now)->bytes};
    wire::MadHeader header = header_of(answer.bytes);
    header.method = MadMethod::GetResp;
    std::ranges::copy(wire::pack(header), answer.bytes.begin());
    EXPECT_EQ(mux.handle_wire(answer, now).action(), Action::Answer);
    EXPECT_TRUE(reached_only(function));
    std::ignore = send(
        function, testing::make_cm(wire::CmAttribute::Req, wire::Req{.local_communication_id = 3}));
    EXPECT_TRUE(mux.poll_wire(now).has_value());
  }
  ASSERT_TRUE(mux.remove_function(kA, now).has_value());
  std::vector<MadMethod> sent;
  while (const auto mad = mux.poll_wire(now)) {
    sent.push_back(header_of(mad->bytes).method);
  }
  EXPECT_EQ(sent, (std::vector{MadMethod::Delete, MadMethod::Delete}));  // group, GUID
  EXPECT_EQ(mux.communication_ids().count_of(kA), 1U);
  EXPECT_EQ(mux.communication_ids().count_of(kB), 1U);
  EXPECT_EQ(mux.handle_wire({.grh = to(gid_of(kA)),
                             .bytes = make_mad(ManagementClass::SubnAdm, MadMethod::Report, 2, 1)},
                            now)
                .reason,
            Reason::UnknownDestinationGid);
  EXPECT_EQ(mux.add_function(kA, {}, now).error().code, ErrorCode::Busy);
  now = now + Duration::seconds(30);
  mux.handle_timeout(now);
  EXPECT_EQ(mux.communication_ids().count_of(kA), 0U);
  EXPECT_EQ(mux.communication_ids().count_of(kB), 1U);
  EXPECT_TRUE(mux.add_function(kA, {}, now).has_value());
  EXPECT_EQ(mux.port_state(kB), FunctionPortState::Active);
  mux.check_invariants();
}

TEST_F(SriovPortSharing, AFunctionMovesWithWhatItHas) {
  add(kA);
  std::ignore =
      send(kA, testing::make_cm(wire::CmAttribute::Req, wire::Req{.local_communication_id = 3}));
  const auto request = mux.poll_wire(now);
  const auto state = mux.export_function(kA, now);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->guid, guid_of(kA));
  Multiplexer other{
      {.port_guid = Guid{0x200}, .first_communication_id = 9000},
      now
  };
  const auto lost = other.import_function(kB, {}, *state, now);
  ASSERT_TRUE(lost.has_value());
  EXPECT_TRUE(lost->empty());
  const wire::Rep rep{.local_communication_id = 4,
                      .remote_communication_id = communication_ids_of(request->bytes).local};
  const InboundMad mad{.bytes = testing::make_cm(wire::CmAttribute::Rep, rep)};
  EXPECT_EQ(other.handle_wire(mad, now).function, kB);
  EXPECT_EQ(mux.handle_wire(mad, now).reason, Reason::UnknownCommunicationId);
}

TEST_F(SriovPortSharing, FunctionsBeyond127HaveATable) {
  Multiplexer large{
      {.port_guid = Guid{0x100}, .most_functions = 300},
      now
  };
  const FunctionId function{299};
  ASSERT_TRUE(large.add_function(function, {}, now).has_value());
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced);
  ASSERT_TRUE(large
                  .post_send(function, SpecialQp::Gsi, large.proxy_qpn(function, SpecialQp::Gsi),
                             {.header = {.remote_qpn = kQp1}, .mad = query})
                  .has_value());
  EXPECT_EQ(large.serve_tunnel(now)->reason, Reason::Translated);
  MadBytes answer = large.poll_wire(now)->bytes;
  wire::MadHeader header = header_of(answer);
  header.method = MadMethod::GetResp;
  std::ranges::copy(wire::pack(header), answer.begin());
  EXPECT_EQ(large.handle_wire({.bytes = answer}, now).function, function);
  EXPECT_EQ(large.add_function(FunctionId{300}, {}, now).error().code, ErrorCode::InvalidArgument);
}

TEST_F(SriovPortSharing, RmppPassesTheTunnels) {
  Multiplexer large{
      {.port_guid = Guid{0x100}, .most_functions = 300},
      now
  };
  const FunctionId function{200};
  ASSERT_TRUE(large.add_function(function, {}, now).has_value());
  const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::GetTable, kPathRecord, kForced);
  const auto ask = [&] {
    EXPECT_TRUE(large
                    .post_send(function, SpecialQp::Gsi, large.proxy_qpn(function, SpecialQp::Gsi),
                               {.header = {.remote_qpn = kQp1}, .mad = query})
                    .has_value());
    EXPECT_EQ(large.serve_tunnel(now)->reason, Reason::Translated);
    return large.poll_wire(now)->bytes;
  };
  MadBytes segment = ask();
  const std::uint64_t on_wire = header_of(segment).transaction_id;
  wire::MadHeader header = header_of(segment);
  header.method = MadMethod::GetTableResp;
  std::ranges::copy(wire::pack(header), segment.begin());
  for (int i = 0; i < 100; ++i) {  // more than a minute of segments, each acknowledged
    now = now + Duration::seconds(1);
    large.handle_timeout(now);
    EXPECT_EQ(large.handle_wire({.bytes = segment}, now).function, function);
    const auto got = large.poll_receive(function, SpecialQp::Gsi);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(header_of(got->mad).transaction_id, kForced);
    EXPECT_EQ(header_of(ask()).transaction_id, on_wire);  // an ACK has the method of the request
  }
}

TEST_F(SriovPortSharing, WhoTakesNoTablesIsToldBusyAndTheOthersAreNot) {
  add(kA);
  add(kB);
  const auto ask = [&](FunctionId function, std::uint64_t id) {
    const auto query = make_mad(ManagementClass::SubnAdm, MadMethod::GetTable, kPathRecord, id);
    return send(function, query, {.address = {.dlid = kManager}}).reason;
  };
  std::uint64_t id = 1;
  while (ask(kA, id) == Reason::Translated) {
    ASSERT_FALSE(received(kA)) << "SA has answered nothing";
    ++id;
  }
  EXPECT_EQ(id, 13U);
  const auto busy = received(kA);
  ASSERT_TRUE(busy);
  const wire::MadHeader header = header_of(busy->mad);
  EXPECT_EQ(header.transaction_id, id);
  EXPECT_EQ(header.method, MadMethod::GetTableResp);
  EXPECT_EQ(header.status, wire::kMadStatusBusy);
  EXPECT_EQ(busy->header.slid, kManager);
  EXPECT_EQ(ask(kA, id), Reason::TooManyTables);
  EXPECT_EQ(mux.counters().of(kA, Action::Answer), 2U);
  EXPECT_EQ(ask(kB, 1), Reason::Translated);
  EXPECT_TRUE(mux.remove_function(kA, now).has_value());
  EXPECT_EQ(ask(kB, 2), Reason::Translated);
}

TEST_F(SriovPortSharing, ADecisionCanBeRead) {
  add(kA);
  const auto sent =
      send(kA, make_mad(ManagementClass::SubnAdm, MadMethod::Get, kPathRecord, kForced));
  EXPECT_EQ(to_string(sent),
            "from VF 1: SubnAdm Get PathRecord sent: translated to the port's indexes and ids; "
            "TransactionID 0x0000000000000007 became 0x0100000000000007");
}

TEST(SriovAdoption, ConnectionsFromBeforeKeepTheIdsThatAreOnTheWire) {
  Multiplexer mux{{.port_guid = Guid{0x100}}, Instant{}};
  const std::vector<CommunicationId> before{
      {.local = 5, .peer = 6, .is_established = true},
      {.local = 7, .is_of_request = true},
      {.local = 5, .peer = 9},
      {.local = 0}
  };
  EXPECT_EQ(mux.adopt_connections(before), 2U) << "one ID twice, and none";
  CommunicationIds& ids = mux.communication_ids();
  ASSERT_NE(ids.find_physical(5), nullptr);
  EXPECT_EQ(ids.find_physical(5)->function, kPhysicalFunction);
  EXPECT_EQ(ids.find_with_peer(kPhysicalFunction, 5, 6), ids.find_physical(5));
  EXPECT_EQ(ids.find(kPhysicalFunction, 7), ids.find_physical(7));
  EXPECT_EQ(ids.size(), 2U);
  ids.check_invariants();
}

}  // namespace
}  // namespace weft::sriov
