#include "core/qp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/device.h"
#include "core/testing/engine_pair.h"
#include "core/xrcd.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::End;
using testing::EnginePair;
using testing::signaled;
using verbs::QpAttribute;
using verbs::QpState;
using verbs::QpType;

constexpr Gid kGroup{0xFF12'0000'0000'0000, Guid{5}};

[[nodiscard]] QpInit plain_init(const End& end, QpType type = QpType::Rc) {
  QpInit init;
  init.type = type;
  init.send_cq = end.send_cq;
  init.recv_cq = end.recv_cq;
  init.capabilities = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  return init;
}

TEST(Qps, CarryASendIntoAReceiveAndTellBothHandlers) {
  EnginePair pair;
  CountedRequest receive;
  CountedRequest send;
  const std::array into{pair.b.sge(0, 64)};
  const std::array from{pair.a.sge(0, 11)};
  std::ranges::fill(std::span{pair.a.memory}.first(11), std::byte{0x5A});
  ASSERT_TRUE(post_recv(*pair.b.qp, {.wr_id = wr_id_of(receive.handler), .sges = into}));
  ASSERT_TRUE(post_send(*pair.a.qp, signaled(send, verbs::WrOpcode::Send, from)));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(send.status, verbs::WcStatus::Success);
  EXPECT_EQ(receive.status, verbs::WcStatus::Success);
  EXPECT_EQ(receive.byte_length, 11U);
  EXPECT_EQ(pair.b.memory[10], std::byte{0x5A});
  EXPECT_EQ(pair.b.memory[11], std::byte{0});
}

// T-CQ-3: the CQ works on, too.
TEST(Qps, HoldTheirPdAndCqsAndTellTheirCapabilities) {
  EnginePair pair;
  QpInit init = plain_init(pair.a);
  const auto qp = create_qp(*pair.a.pd, init);
  ASSERT_TRUE(qp);
  EXPECT_GE(init.capabilities.max_send_wr, 1U);
  EXPECT_GE(init.capabilities.max_inline_data, 1U);
  EXPECT_EQ((*qp)->init().capabilities, init.capabilities);
  EXPECT_EQ(free_cq(*pair.a.send_cq).error().code, ErrorCode::Busy);
  EXPECT_EQ(deallocate_pd(*pair.a.pd).error().code, ErrorCode::Busy);
  EXPECT_EQ(pair.a.send_cq->uses(), 2U);
  CountedRequest send;
  ASSERT_TRUE(post_send(*pair.a.qp, signaled(send, verbs::WrOpcode::RdmaWrite)));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(send.calls, 1U);
  EXPECT_EQ(send.status, verbs::WcStatus::Success);
  ASSERT_TRUE(destroy_qp(**qp));
  EXPECT_EQ(pair.a.send_cq->uses(), 1U);
}

DeviceOperations operations_without_integrity() {
  DeviceOperations operations = engine::engine_operations();
  operations.query_device = [](Device& device) {
    auto attributes = engine::engine_operations().query_device(device);
    attributes->capabilities = attributes->capabilities.without(DeviceCapability::Integrity);
    return attributes;
  };
  return operations;
}

TEST(Qps, AreRefusedWithPartsThatDoNotGoTogether) {
  EnginePair pair{{}, {.operations = operations_without_integrity}};
  const auto code_of = [&](QpInit init) { return create_qp(*pair.a.pd, init).error().code; };
  QpInit init = plain_init(pair.a);
  init.send_cq = nullptr;
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a);
  init.recv_cq = pair.b.recv_cq;  // of another device
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a);
  init.flags = QpCreateFlag::IntegrityEnabled;
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a);
  init.capabilities.max_send_wr = 1U << 20;
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a);
  init.capabilities.max_recv_sge = 1U << 20;
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a, QpType::XrcTarget);
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  init = plain_init(pair.a, QpType::Gsi);
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);  // of port 0
  init.port = PortNumber{1};
  EXPECT_EQ(code_of(init), ErrorCode::NotSupported);  // the engine's MAD layer has no QP
  IndirectionTable* const some = std::bit_cast<IndirectionTable*>(std::uintptr_t{8});
  init = plain_init(pair.a);
  init.indirection_table = some;
  EXPECT_EQ(code_of(init), ErrorCode::InvalidArgument);
  EXPECT_EQ(pair.a.device->resource_count(ResourceKind::Qp), 1U);
}

TEST(Qps, HaveRoomInTheSendQueueForTheirRdmaContexts) {
  EnginePair pair;
  QpInit init = plain_init(pair.a);
  init.max_rdma_contexts = 10;
  Qp* const qp = *create_qp(*pair.a.pd, init);
  EXPECT_GE(init.capabilities.max_send_wr, 11U);
  EXPECT_EQ(qp->rdma_mrs.size(), 0U);  // the device reads and writes without registration
  ASSERT_TRUE(destroy_qp(*qp));
}

// The table itself is hca/qp_modify_test.cc's; here, that the core keeps to it and to the rest.
TEST(QpModifies, AreRefusedWithoutAChange) {
  EnginePair pair;
  Qp& qp = *pair.a.qp;
  const verbs::QpAttributes before = query_qp(qp, {})->attributes;
  QpModify modify{.mask = QpAttribute::State};
  modify.attributes.state = QpState::Rtr;
  EXPECT_EQ(modify_qp(qp, modify).error().code, ErrorCode::InvalidArgument);
  modify = {.mask = QpAttribute::PathMtu};
  EXPECT_EQ(modify_qp(qp, modify).error().code, ErrorCode::InvalidArgument);
  modify = {.mask = verbs::QpAttributeMask{QpAttribute::State} | QpAttribute::CurrentState};
  modify.attributes.state = QpState::Rts;
  modify.attributes.current_state = QpState::Init;  // none that a caller may name
  EXPECT_EQ(modify_qp(qp, modify).error().code, ErrorCode::InvalidArgument);
  modify = {.mask = QpAttribute::AlternatePath};
  modify.attributes.alternate_address.port = PortNumber{9};
  EXPECT_EQ(modify_qp(qp, modify).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(query_qp(qp, {})->attributes, before);
}

// T-PORT-2
TEST(QpModifies, KnowNoPort0AndNoneBehindTheLast) {
  EnginePair pair;
  const auto behind = static_cast<std::uint8_t>(pair.a.device->last_port().value() + 1);
  for (const PortNumber port : {PortNumber{0}, PortNumber{behind}}) {
    QpInit init = plain_init(pair.a);
    Qp* const qp = *create_qp(*pair.a.pd, init);
    QpModify modify{.mask = verbs::QpAttributeMask{QpAttribute::State} | QpAttribute::Port |
                            QpAttribute::PKeyIndex | QpAttribute::RemoteAccess};
    modify.attributes.state = QpState::Init;
    modify.attributes.port = port;
    EXPECT_EQ(modify_qp(*qp, modify).error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(query_qp(*qp, {})->attributes.state, QpState::Reset);
    modify.attributes.port = PortNumber{1};
    ASSERT_TRUE(modify_qp(*qp, modify));
    modify = {.mask = verbs::QpAttributeMask{QpAttribute::State} | QpAttribute::AddressVector |
                      QpAttribute::PathMtu | QpAttribute::DestQpn | QpAttribute::RqPsn |
                      QpAttribute::MaxDestRdAtomic | QpAttribute::MinRnrTimer};
    modify.attributes.state = QpState::Rtr;
    modify.attributes.path_mtu = verbs::Mtu::Mtu1024;
    modify.attributes.address.dlid = Lid{2};
    modify.attributes.address.port = port;
    EXPECT_EQ(modify_qp(*qp, modify).error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(query_qp(*qp, {})->attributes.state, QpState::Init);
    modify.attributes.address.port = PortNumber{1};
    EXPECT_TRUE(modify_qp(*qp, modify));
    ASSERT_TRUE(destroy_qp(*qp));
  }
}

TEST(QpModifies, HoldTheSourceGidOfTheAddressVector) {
  EnginePair pair;
  QpInit init = plain_init(pair.a);
  Qp* const qp = *create_qp(*pair.a.pd, init);
  PortCache& cache = pair.a.device->cache(PortNumber{1});
  const auto references = [&] { return cache.gid_at(0).value()->references() - 1; };
  const std::uint32_t start = references();
  End end;
  end.qp = qp;
  QpFields fields;
  fields.state = QpState::Init;
  fields.attributes.port = PortNumber{1};
  ASSERT_TRUE(apply_qp_fields(*qp, fields));
  QpModify modify{.mask = verbs::QpAttributeMask{QpAttribute::State} | QpAttribute::AddressVector |
                          QpAttribute::PathMtu | QpAttribute::DestQpn | QpAttribute::RqPsn |
                          QpAttribute::MaxDestRdAtomic | QpAttribute::MinRnrTimer};
  modify.attributes.state = QpState::Rtr;
  modify.attributes.path_mtu = verbs::Mtu::Mtu1024;
  modify.attributes.dest_qpn = Qpn{9};
  verbs::AddressVector& address = modify.attributes.address;
  address.port = PortNumber{1};
  address.dlid = Lid{2};
  address.is_global = true;
  address.grh.sgid_index = 3;  // an empty entry
  EXPECT_EQ(modify_qp(*qp, modify).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(references(), start);
  address.grh.sgid_index = 0;
  const auto modified = modify_qp(*qp, modify);
  ASSERT_TRUE(modified) << modified.error().reason;
  EXPECT_EQ(references(), start + 1);
  EXPECT_EQ(qp->sgid()->index(), 0U);
  ASSERT_TRUE(destroy_qp(*qp));
  EXPECT_EQ(references(), start);
}

// Part of T-QP-6: address and Q_Key; the Q_Key is on the wire.
TEST(QpFieldsOfADatagramQp, GiveSendsADestinationAndAQKey) {
  EnginePair pair{{.type = QpType::Ud}};
  std::vector<std::uint32_t> qkeys;
  pair.network.filter = [&](const testing::EngineNetwork::Flight& flight) {
    qkeys.push_back(flight.header.extension.deth.qkey.value());
    return true;
  };
  CountedRequest receive;
  CountedRequest send;
  const std::array into{pair.b.sge(0, 128)};
  const std::array from{pair.a.sge(0, 8)};
  ASSERT_TRUE(post_recv(*pair.b.qp, {.wr_id = wr_id_of(receive.handler), .sges = into}));
  ASSERT_TRUE(post_send(*pair.a.qp, signaled(send, verbs::WrOpcode::Send, from)));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(send.status, verbs::WcStatus::Success);
  EXPECT_EQ(receive.status, verbs::WcStatus::Success);
  EXPECT_EQ(receive.byte_length, 8U + 40U);  // IBTA vol 1 §11.4.1.2: room for a GRH
  EXPECT_THAT(qkeys, ::testing::ElementsAre(0x1234U));
}

TEST(QpFieldsTest, DoNotTakeAQpBackwards) {
  EnginePair pair;
  QpFields fields;
  fields.state = QpState::Init;
  EXPECT_EQ(apply_qp_fields(*pair.a.qp, fields).error().code, ErrorCode::InvalidArgument);
}

TEST(QpChains, StopAtTheFirstRequestThatIsRefused) {
  EnginePair pair;
  CountedRequest one;
  CountedRequest two;
  SendWr second = signaled(two, static_cast<verbs::WrOpcode>(99));
  SendWr first = signaled(one, verbs::WrOpcode::RdmaWrite);
  first.next = &second;
  const SendWr* bad = nullptr;
  EXPECT_EQ(post_send(*pair.a.qp, first, &bad).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(bad, &second);
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(one.calls, 1U);
  EXPECT_EQ(two.calls, 0U);
}

TEST(QpMulticast, IsForDatagramQpsAndKeepsThemFromGoing) {
  EnginePair pair{{.type = QpType::Ud}};
  const Lid lid{0xC001};
  EXPECT_EQ(attach_multicast(*pair.a.qp, Gid{1, Guid{1}}, lid).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(attach_multicast(*pair.a.qp, kGroup, Lid{5}).error().code, ErrorCode::InvalidArgument);
  QpInit init = plain_init(pair.a);
  Qp* const rc = *create_qp(*pair.a.pd, init);
  EXPECT_EQ(attach_multicast(*rc, kGroup, lid).error().code, ErrorCode::InvalidArgument);
  ASSERT_TRUE(destroy_qp(*rc));
  ASSERT_TRUE(attach_multicast(*pair.a.qp, kGroup, lid));
  ASSERT_TRUE(attach_multicast(*pair.a.qp, kGroup, lid));  // twice is once
  EXPECT_EQ(pair.a.qp->multicast_groups(), 1U);
  EXPECT_EQ(destroy_qp(*pair.a.qp).error().code, ErrorCode::Busy);
  ASSERT_TRUE(detach_multicast(*pair.a.qp, kGroup, lid));
  EXPECT_FALSE(detach_multicast(*pair.a.qp, kGroup, lid));
  EXPECT_EQ(pair.a.qp->multicast_groups(), 0U);
}

TEST(QpVisits, SeeEachQpOnceAndHoldItMeanwhile) {
  EnginePair pair;
  std::vector<Qp*> qps{pair.a.qp};
  for (int i = 0; i < 9; ++i) {
    QpInit init = plain_init(pair.a);
    qps.push_back(*create_qp(*pair.a.pd, init));
  }
  std::vector<Qp*> seen;
  for_each_qp(*pair.a.device, [&](Qp& qp) {
    seen.push_back(&qp);
    if (seen.size() == 3) {
      QpInit init = plain_init(pair.a);
      qps.push_back(*create_qp(*pair.a.pd, init));  // one that comes meanwhile
    }
  });
  EXPECT_EQ(seen, qps);
  for (std::size_t i = 1; i < qps.size(); ++i) {
    EXPECT_TRUE(destroy_qp(*qps[i]));
  }
}

TEST(XrcTargets, StayUntilTheLastOfThoseWhoHaveThemOpenDestroysThem) {
  EnginePair pair;
  Xrcd* const xrcd = *allocate_xrcd(*pair.b.device);
  int events = 0;
  const auto count = [](const Event& /*event*/, void* context) { ++*static_cast<int*>(context); };
  QpInit init;
  init.type = QpType::XrcTarget;
  init.xrcd = xrcd;
  init.event_handler = count;
  init.context = &events;
  const auto first = create_xrc_target(*pair.b.device, init);
  ASSERT_TRUE(first) << first.error().reason;
  EXPECT_NE(&(*first)->real(), *first);
  EXPECT_EQ(open_qp(*xrcd, {.number = Qpn{1}}).error().code, ErrorCode::InvalidArgument);
  const auto second =
      open_qp(*xrcd, {.number = (*first)->number(), .event_handler = count, .context = &events});
  ASSERT_TRUE(second);
  dispatch_event({.device = pair.b.device,
                  .type = verbs::AsyncEventType::PathMigrated,
                  .qp = &(*first)->real()});
  EXPECT_EQ(events, 2);
  EXPECT_EQ(deallocate_xrcd(*xrcd).error().code, ErrorCode::Busy);
  QpFields fields;
  fields.attributes.port = PortNumber{1};
  EXPECT_TRUE(apply_qp_fields(**second, fields));
  EXPECT_EQ(query_qp(**first, {})->attributes.state, QpState::Init);
  EXPECT_EQ(close_qp(*pair.b.qp).error().code, ErrorCode::InvalidArgument);
  ASSERT_TRUE(destroy_qp(**first));  // the other has it still
  EXPECT_EQ(pair.b.device->resource_count(ResourceKind::Qp), 2U);
  ASSERT_TRUE(destroy_qp(**second));
  EXPECT_EQ(pair.b.device->resource_count(ResourceKind::Qp), 1U);
  EXPECT_TRUE(deallocate_xrcd(*xrcd));
}

}  // namespace
}  // namespace weft::core
