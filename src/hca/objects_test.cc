#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "hca/completion_queue.h"
#include "hca/hca.h"
#include "hca/memory_region.h"
#include "hca/qp.h"
#include "hca/qp_core.h"
#include "hca/qp_state_table.h"
#include "hca/receive_queue.h"
#include "hca/send_queue.h"
#include "hca/testing/loopback_pair.h"
#include "hca/uc_transport.h"
#include "hca/ud_transport.h"
#include "verbs/mtu.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::RecordedEvents;

constexpr std::array kStates = {QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts,
                                QpState::Sqd,   QpState::Sqe,  QpState::Err};

TEST(QpStateTable, AcceptsExactlyRequiredAndOptionalAttributes) {  // T-QP-1
  for (const QpType type : {QpType::Rc, QpType::Uc, QpType::Ud}) {
    for (const QpState from : kStates) {
      for (const QpState to : kStates) {
        const QpTransition* transition = qp_transition(type, from, to);
        if (transition == nullptr) {
          EXPECT_FALSE(check_qp_transition(type, from, to, QpAttribute::State));
          continue;
        }
        const QpAttributeMask whole =
            transition->required | transition->optional | QpAttribute::State;
        EXPECT_TRUE(check_qp_transition(type, from, to, transition->required));
        EXPECT_TRUE(check_qp_transition(type, from, to, whole));
        for (unsigned bit = 0; bit < 26; ++bit) {
          const auto attribute = static_cast<QpAttribute>(1U << bit);
          if (transition->required.has(attribute)) {
            EXPECT_FALSE(check_qp_transition(type, from, to, whole.without(attribute)));
          } else if (!whole.has(attribute)) {
            EXPECT_FALSE(check_qp_transition(type, from, to, whole | attribute));
          }
        }
      }
    }
  }
}

TEST(QpStateTable, HasTheTransitionsOfTheSpecificationAndNoOthers) {
  EXPECT_EQ(qp_transition(QpType::Rc, QpState::Reset, QpState::Rtr), nullptr);
  EXPECT_EQ(qp_transition(QpType::Rc, QpState::Sqe, QpState::Rts), nullptr);
  EXPECT_NE(qp_transition(QpType::Ud, QpState::Sqe, QpState::Rts), nullptr);
  EXPECT_EQ(qp_transition(QpType::Rc, QpState::Reset, QpState::Err), nullptr);
  EXPECT_NE(qp_transition(QpType::Rc, QpState::Rts, QpState::Err), nullptr);
  EXPECT_TRUE(qp_transition(QpType::Rc, QpState::Init, QpState::Rtr)
                  ->required.has(QpAttribute::MinRnrTimer));
  EXPECT_FALSE(qp_transition(QpType::Uc, QpState::Init, QpState::Rtr)
                   ->required.has(QpAttribute::MinRnrTimer));
}

TEST(Qp, KeepsItsAttributesWhenAModifyIsRefused) {  // R-QP-3
  LoopbackPair pair;
  pair.to_init(pair.a());
  QpAttributes attributes;
  attributes.state = QpState::Rtr;
  attributes.path_mtu = verbs::Mtu::Mtu1024;
  EXPECT_FALSE(
      pair.a().qp->modify(attributes, QpAttributeMask{QpAttribute::State} | QpAttribute::PathMtu));
  EXPECT_EQ(pair.a().qp->query().state, QpState::Init);
  EXPECT_EQ(pair.a().qp->query().path_mtu, verbs::Mtu::Mtu256);
}

TEST(Qp, OfAnyOtherNumberIsNone) {
  LoopbackPair pair;
  testing::Side& a = pair.a();
  for (unsigned number = 0; number < 256; ++number) {
    QpInit init;
    init.type = static_cast<QpType>(number);
    init.pd = a.pd;
    init.send_cq = init.recv_cq = a.send_cq;
    const auto made = a.hca.create_qp(init);
    const bool is_of_programs = verbs::qp_type_of(number).has_value();
    EXPECT_EQ(made.has_value(), is_of_programs && init.type != QpType::XrcTarget) << number;
  }
}

TEST(Qp, RefusesPostsThatItsStateOrLimitsForbid) {
  LoopbackPair pair{{.depth = 2}};
  const std::array sges{pair.a().sge(0, 8)};
  SendWr wr;
  wr.sges = sges;
  EXPECT_FALSE(pair.a().qp->post_send(wr));
  EXPECT_FALSE(pair.a().qp->post_recv({.wr_id = 1, .sges = sges}));
  pair.connect();
  const std::vector<Sge> five(5, pair.a().sge(0, 8));
  wr.sges = five;
  EXPECT_EQ(pair.a().qp->post_send(wr).error().code, ErrorCode::InvalidArgument);
  const std::array long_inline{pair.a().sge(0, 257)};
  wr.sges = long_inline;
  wr.flags = Send::Inline;
  EXPECT_EQ(pair.a().qp->post_send(wr).error().code, ErrorCode::InvalidArgument);
  wr.flags = {};
  wr.sges = sges;
  EXPECT_TRUE(pair.a().qp->post_send(wr));
  EXPECT_TRUE(pair.a().qp->post_send(wr));
  EXPECT_EQ(pair.a().qp->post_send(wr).error().code, ErrorCode::OutOfMemory);
}

TEST(MemoryTable, FindsByKeyOnlyWhatTheKeyAllows) {  // T-RVT-1
  ProtectionDomain pd;
  ProtectionDomain other;
  MemoryTable table{8, 1, LockPolicy::None};
  std::array<std::byte, 100> memory{};
  MemoryRegion& region =
      **table.add(pd, 1000, memory, AccessFlags{Access::LocalWrite} | Access::RemoteWrite);
  const auto fault = [&](RKey key, std::uint64_t at, std::uint64_t length, AccessFlags needed,
                         const ProtectionDomain& domain) {
    return table.find(domain, key, at, length, needed).fault;
  };
  EXPECT_EQ(fault(region.rkey, 1000, 100, Access::RemoteWrite, pd), KeyFault::None);
  EXPECT_EQ(fault(region.rkey, 1001, 100, Access::RemoteWrite, pd), KeyFault::OutOfRange);
  EXPECT_EQ(fault(region.rkey, 999, 1, Access::RemoteWrite, pd), KeyFault::OutOfRange);
  EXPECT_EQ(fault(region.rkey, ~std::uint64_t{0}, 2, Access::RemoteWrite, pd),
            KeyFault::OutOfRange);
  EXPECT_EQ(fault(region.rkey, 1000, 1, Access::RemoteRead, pd), KeyFault::MissingAccess);
  EXPECT_EQ(fault(region.rkey, 1000, 1, Access::RemoteWrite, other), KeyFault::OtherPd);
  EXPECT_EQ(fault(RKey{region.rkey.value() ^ 1}, 1000, 1, Access::RemoteWrite, pd),
            KeyFault::NoSuchKey);
  EXPECT_EQ(fault(RKey{region.rkey.value() ^ 0x100}, 1000, 1, Access::RemoteWrite, pd),
            KeyFault::NoSuchKey);
  EXPECT_EQ(fault(RKey{0xFFFFFFFF}, 1000, 1, Access::RemoteWrite, pd), KeyFault::NoSuchKey);
  EXPECT_EQ(fault(RKey{0xFFFFFFFF}, 7, 0, Access::RemoteWrite, pd), KeyFault::None);  // C9-88
  EXPECT_EQ(table.invalidate(other, region.rkey), KeyFault::OtherPd);
  EXPECT_EQ(table.invalidate(pd, region.rkey), KeyFault::None);
  EXPECT_EQ(fault(region.rkey, 1000, 1, Access::RemoteWrite, pd), KeyFault::Invalidated);
  const RKey stale = region.rkey;
  table.remove(region);
  MemoryRegion& again = **table.add(pd, 1000, memory, Access::LocalWrite);
  EXPECT_NE(again.rkey, stale);
}

TEST(MemoryTable, RefusesRemoteWriteWithoutLocalWrite) {
  ProtectionDomain pd;
  MemoryTable table{1, 1, LockPolicy::None};
  std::array<std::byte, 8> memory{};
  EXPECT_FALSE(table.add(pd, 0, memory, Access::RemoteWrite));
  EXPECT_TRUE(table.add(pd, 0, memory, Access::RemoteRead));
  EXPECT_EQ(table.add(pd, 0, memory, Access::RemoteRead).error().code, ErrorCode::OutOfMemory);
}

TEST(CompletionQueue, DiesOnOverflowAndSaysSoOnce) {  // T-RVT-6
  RecordedEvents events;
  CompletionQueue cq{4, LockPolicy::None, events};
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(cq.push({}, false));
  }
  EXPECT_FALSE(cq.push({}, false));
  EXPECT_FALSE(cq.push({}, false));
  EXPECT_EQ(events.count(AsyncEventType::CqError), 1U);
}

std::uint64_t counting_clock() {
  static std::uint64_t time = 0;
  return ++time;
}

TEST(CompletionQueue, KeepsEveryCompletionWithItsStamp) {
  RecordedEvents events;
  CompletionQueue cq{3, LockPolicy::None, events, {.clock = counting_clock}};
  Wc wc;
  std::uint64_t stamp = 0;
  const auto push = [&](std::uint64_t id, std::uint32_t qpn) {
    wc.wr_id = id;
    wc.qpn = Qpn{qpn};
    EXPECT_TRUE(cq.push(wc, false));
  };
  push(1, 7);
  ASSERT_TRUE(cq.poll_one(wc, stamp));
  const std::uint64_t first = stamp;
  push(2, 7);
  push(3, 8);
  push(4, 7);  // wraps around
  cq.remove(Qpn{8});
  ASSERT_TRUE(cq.resize(5));
  push(5, 7);
  for (const auto& [id, after] : {
           std::pair{2U, 1U},
           {4U, 3U},
           {5U, 4U}
  }) {
    ASSERT_TRUE(cq.poll_one(wc, stamp));
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(stamp, first + after);
  }
  EXPECT_FALSE(cq.poll_one(wc, stamp));
}

TEST(CompletionQueue, LosesTheOldestWhereOverrunIsIgnored) {
  RecordedEvents events;
  CompletionQueue cq{2, LockPolicy::None, events, {.ignore_overrun = true}};
  Wc wc;
  for (wc.wr_id = 1; wc.wr_id <= 3; ++wc.wr_id) {
    EXPECT_TRUE(cq.push(wc, false));
  }
  EXPECT_FALSE(cq.is_dead());
  EXPECT_EQ(events.count(AsyncEventType::CqError), 0U);
  std::array<Wc, 3> out;
  ASSERT_EQ(cq.poll(out), 2U);
  EXPECT_EQ(out[0].wr_id, 2U);
  EXPECT_EQ(out[1].wr_id, 3U);
}

TEST(CompletionQueue, FiresOnceForWhatItWasArmedFor) {
  RecordedEvents events;
  CompletionQueue cq{16, LockPolicy::None, events};
  cq.arm(true);
  EXPECT_EQ(events.completions.size(), 0U);
  cq.push({}, false);
  EXPECT_EQ(events.completions.size(), 0U);
  Wc failed;
  failed.status = WcStatus::Fatal;
  cq.push(failed, false);  // an error counts as solicited
  cq.push({}, true);
  EXPECT_EQ(events.completions.size(), 1U);
}

TEST(CompletionQueue, FiresAtOnceForWhatCameAfterTheLastEvent) {
  RecordedEvents events;
  CompletionQueue cq{16, LockPolicy::None, events};
  cq.arm(false);
  cq.push({}, true);
  ASSERT_EQ(events.completions.size(), 1U);
  cq.arm(false);
  EXPECT_EQ(events.completions.size(), 1U) << "it made its event already";
  CompletionQueue late{16, LockPolicy::None, events};
  late.arm(false);
  late.push({}, false);
  late.push({}, false);  // after the event and before the next arm
  ASSERT_EQ(events.completions.size(), 2U);
  late.arm(true);
  EXPECT_EQ(events.completions.size(), 2U) << "none of them is solicited";
  late.arm(false);
  EXPECT_EQ(events.completions.size(), 3U);
}

TEST(CompletionQueue, FiresAtOnceForWhatAPollLeftBehind) {
  RecordedEvents events;
  CompletionQueue cq{16, LockPolicy::None, events};
  for (int i = 0; i < 3; ++i) {
    cq.push({}, false);
  }
  cq.arm(false);
  ASSERT_EQ(events.completions.size(), 1U);
  Wc wc;
  EXPECT_EQ(cq.poll({&wc, 1}), 1U);
  cq.arm(false);
  EXPECT_EQ(events.completions.size(), 2U) << "two are left";
  std::array<Wc, 4> rest;
  EXPECT_EQ(cq.poll(rest), 2U);
  cq.arm(false);
  EXPECT_EQ(events.completions.size(), 2U) << "nothing is left";
  cq.push({}, false);
  EXPECT_EQ(events.completions.size(), 3U);
}

TEST(SharedReceiveQueue, ChangesDepthAndLimitTogetherOrNotAtAll) {
  RecordedEvents events;
  Hca hca{{}, events};
  ProtectionDomain& pd = **hca.allocate_pd();
  SharedReceiveQueue& srq = **hca.create_srq(pd, 8, 1, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(srq.post({.wr_id = i, .sges = {}}));
  }
  EXPECT_TRUE(hca.modify_srq(srq, std::nullopt, 6));
  EXPECT_FALSE(hca.modify_srq(srq, 5, std::nullopt)) << "the limit would exceed the depth";
  EXPECT_FALSE(hca.modify_srq(srq, 3, 1)) << "four receives wait";
  EXPECT_FALSE(hca.modify_srq(srq, 20, 21));
  EXPECT_FALSE(hca.modify_srq(srq, hca.configuration().limits.max_srq_wr + 1, std::nullopt));
  EXPECT_FALSE(hca.modify_srq(srq, 0, std::nullopt));
  EXPECT_EQ(srq.depth(), 8U);
  EXPECT_EQ(srq.limit(), 6U);
  EXPECT_TRUE(hca.modify_srq(srq, 5, 2));
  EXPECT_EQ(srq.depth(), 5U);
  ReceiveWqe wqe;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(srq.take(wqe));
    EXPECT_EQ(wqe.wr_id, i);
  }
  EXPECT_EQ(events.count(AsyncEventType::SrqLimitReached), 1U);
}

TEST(SharedReceiveQueue, RaisesItsLimitOnce) {
  RecordedEvents events;
  ProtectionDomain pd;
  SharedReceiveQueue srq{pd, 8, 2, 2, LockPolicy::None, events};
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(srq.post({.wr_id = i, .sges = {}}));
  }
  ReceiveWqe wqe;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(srq.take(wqe));
    EXPECT_EQ(wqe.wr_id, i);
    EXPECT_EQ(events.count(AsyncEventType::SrqLimitReached), i < 2 ? 0U : 1U);
  }
  EXPECT_FALSE(srq.take(wqe));
}

/// An XRC target QP takes receive WQEs from SRQs of different widths in turn. If it were left with
/// the smaller storage, the next wide WQE would need a heap allocation.
TEST(SharedReceiveQueue, LeavesTheTakerItsLargerStorage) {
  RecordedEvents events;
  ProtectionDomain pd;
  constexpr std::uint32_t kWide = 8;
  SharedReceiveQueue narrow{pd, 4, 1, 0, LockPolicy::None, events};
  SharedReceiveQueue wide{pd, 4, kWide, 0, LockPolicy::None, events};
  const Sge one{.address = 1, .length = 10, .lkey = {}};
  const std::vector<Sge> many(kWide, one);
  ReceiveWqe wqe;
  for (std::uint64_t round = 0; round < 10; ++round) {
    ASSERT_TRUE(wide.post({.wr_id = round, .sges = many}));
    ASSERT_TRUE(narrow.post({
        .wr_id = round, .sges = {&one, 1}
    }));
    ASSERT_TRUE(wide.take(wqe));
    EXPECT_EQ(wqe.length, 80U);
    EXPECT_EQ(wqe.list.sges().size(), kWide);
    ASSERT_TRUE(narrow.take(wqe));
    EXPECT_EQ(wqe.length, 10U);
    EXPECT_EQ(wqe.list.sges().size(), 1U);
    EXPECT_EQ(wqe.list.sges()[0].address, 1U);
    EXPECT_EQ(wqe.list.most(), kWide) << "what was made once stays";
  }
}

TEST(Hca, RefusesToDestroyWhatIsInUse) {  // T-PD-1
  LoopbackPair pair;
  EXPECT_EQ(pair.a().hca.deallocate_pd(*pair.a().pd).error().code, ErrorCode::Busy);
  EXPECT_EQ(pair.a().hca.destroy_cq(*pair.a().send_cq).error().code, ErrorCode::Busy);
  EXPECT_TRUE(pair.a().hca.destroy_qp(*pair.a().qp));
  EXPECT_TRUE(pair.a().hca.destroy_cq(*pair.a().send_cq));
  EXPECT_TRUE(pair.a().hca.deregister_memory(*pair.a().region));
  EXPECT_TRUE(pair.a().hca.deallocate_pd(*pair.a().pd));
}

TEST(Hca, RefusesAddressHandlesWithoutPortOrGid) {  // T-AH-2
  LoopbackPair pair;
  AddressVector attributes;
  EXPECT_FALSE(pair.a().hca.create_ah(*pair.a().pd, attributes));
  attributes.port = PortNumber{1};
  EXPECT_FALSE(pair.a().hca.create_ah(*pair.a().pd, attributes)) << "DLID 0 is reserved";
  attributes.dlid = Lid{2};
  EXPECT_TRUE(pair.a().hca.create_ah(*pair.a().pd, attributes));
  attributes.is_global = true;
  attributes.grh.sgid_index = 9;
  EXPECT_FALSE(pair.a().hca.create_ah(*pair.a().pd, attributes));
}

TEST(Uc, DeliversWholeMessagesAndDropsThoseWithAGap) {
  for (const bool lose : {false, true}) {
    LoopbackPair pair{{.type = QpType::Uc}};
    pair.connect();
    std::ranges::fill(pair.a().memory, std::byte{0x5A});
    int packets = 0;
    pair.filter = [&](InFlightPacket&) { return !(lose && ++packets == 2); };
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::array receive{pair.b().sge(0x1000 * (i + 1), 1000)};
      ASSERT_TRUE(pair.b().qp->post_recv({.wr_id = i, .sges = receive}));
      const std::array sges{pair.a().sge(0, 900)};
      SendWr wr;
      wr.sges = sges;
      wr.flags = Send::Signaled;
      ASSERT_TRUE(pair.a().qp->post_send(wr));
    }
    ASSERT_TRUE(pair.run());
    EXPECT_EQ(pair.poll(*pair.a().send_cq).size(), 2U);
    EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), lose ? 1U : 2U);
  }
}

TEST(Ud, PutsFortyBytesBeforeThePayloadAndChecksTheQKey) {
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  pair.a().memory[0] = std::byte{0x77};
  AddressVector address;
  address.dlid = Lid{2};
  address.port = PortNumber{1};
  AddressHandle* ah = *pair.a().hca.create_ah(*pair.a().pd, address);
  for (const std::uint32_t qkey :
       {0x2222U, 0x1111U, 0x8000'0000U}) {  // wrong, right, "the QP's own"
    const std::array receive{pair.b().sge(0x1000, 500)};
    ASSERT_TRUE(pair.b().qp->post_recv({.wr_id = 1, .sges = receive}));
    const std::array sges{pair.a().sge(0, 16)};
    SendWr wr;
    wr.sges = sges;
    wr.ah = ah;
    wr.remote_qpn = pair.b().qp->number();
    wr.remote_qkey = QKey{qkey};
    ASSERT_TRUE(pair.a().qp->post_send(wr));
    ASSERT_TRUE(pair.run());
    const auto received = pair.poll(*pair.b().recv_cq);
    ASSERT_EQ(received.size(), qkey == 0x2222U ? 0U : 1U);
    if (!received.empty()) {
      EXPECT_EQ(received[0].byte_length, 56U);
      EXPECT_EQ(received[0].src_qpn, pair.a().qp->number());
      EXPECT_EQ(pair.b().memory[0x1000 + kGrhBytes], std::byte{0x77});
    }
  }
}

/// IBTA vol 1 §8.3.1: PayLen includes immediate data, padding and ICRC, as on the wire.
TEST(Ud, PutsTheGrhBeforeThePayloadAsItWasOnTheWire) {
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  AddressVector address;
  address.dlid = Lid{2};
  address.port = PortNumber{1};
  address.is_global = true;
  AddressHandle* ah = *pair.a().hca.create_ah(*pair.a().pd, address);
  const std::array receive{pair.b().sge(0x1000, 500)};
  ASSERT_TRUE(pair.b().qp->post_recv({.wr_id = 1, .sges = receive}));
  const std::array sges{pair.a().sge(0, 13)};
  SendWr wr;
  wr.opcode = WrOpcode::SendWithImmediate;
  wr.sges = sges;
  wr.ah = ah;
  wr.remote_qpn = pair.b().qp->number();
  wr.remote_qkey = QKey{0x1111};
  ASSERT_TRUE(pair.a().qp->post_send(wr));
  ASSERT_TRUE(pair.run());
  const auto received = pair.poll(*pair.b().recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(received[0].flags.has(Completion::Grh));
  constexpr std::size_t kPayLenAt = 4;
  constexpr unsigned kBthDethImmediatePaddedIcrc = 12 + 8 + 4 + 16 + 4;
  EXPECT_EQ(std::to_integer<unsigned>(pair.b().memory[0x1000 + kPayLenAt]), 0U);
  EXPECT_EQ(std::to_integer<unsigned>(pair.b().memory[0x1000 + kPayLenAt + 1]),
            kBthDethImmediatePaddedIcrc);
}

}  // namespace
}  // namespace weft::hca
