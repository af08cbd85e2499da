#include "hca/held_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "hca/hca.h"
#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using testing::RecordedEvents;

class Held : public ::testing::Test {
 protected:
  RecordedEvents events_;
  Hca hca_{
      {.limits = {}, .first_qpn = Qpn{0x4000}},
      events_
  };
};

TEST_F(Held, NothingAtFirst) {
  const HeldObjects held = hca_.held_objects();
  EXPECT_THAT(held.pds, IsEmpty());
  EXPECT_THAT(held.cqs, IsEmpty());
  EXPECT_THAT(held.mrs, IsEmpty());
  EXPECT_THAT(held.srqs, IsEmpty());
  EXPECT_THAT(held.qps, IsEmpty());
}

TEST_F(Held, ObjectsWithWhatTheyBelongTo) {
  ProtectionDomain* const other = *hca_.allocate_pd();
  ProtectionDomain* const pd = *hca_.allocate_pd();
  CompletionQueue* const cq = *hca_.create_cq(32);
  std::array<std::byte, 512> memory{};
  MemoryRegion* const region = *hca_.register_memory(*pd, 0x1000, memory, Access::LocalWrite);
  SharedReceiveQueue* const srq = *hca_.create_srq(*pd, 8, 1, 0);
  Qp* const qp = *hca_.create_qp({
      .type = QpType::Ud,
      .pd = pd,
      .send_cq = cq,
      .recv_cq = cq,
      .capabilities = {.max_send_wr = 4, .max_recv_wr = 4}
  });
  PortAttributes port;
  port.state = PortState::Active;
  port.pkeys = {kDefaultPKey};
  hca_.set_port(PortNumber{1}, port);
  QpAttributes init;
  init.state = QpState::Init;
  init.port = PortNumber{1};
  ASSERT_TRUE(qp->modify(init, QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                                   QpAttribute::Port | QpAttribute::QKey));
  const HeldObjects held = hca_.held_objects();
  ASSERT_THAT(held.pds, SizeIs(2));
  EXPECT_NE(held.pds[0].number, held.pds[1].number);
  const std::uint32_t number = held.pds[0].uses != 0 ? held.pds[0].number : held.pds[1].number;
  ASSERT_THAT(held.mrs, SizeIs(1));
  EXPECT_EQ(held.mrs[0].lkey, region->lkey);
  EXPECT_EQ(held.mrs[0].length, memory.size());
  EXPECT_EQ(held.mrs[0].pd, number);
  EXPECT_THAT(held.srqs, ElementsAre(Field(&HeldObjects::Srq::pd, number)));
  ASSERT_THAT(held.cqs, SizeIs(1));
  EXPECT_EQ(held.cqs[0].capacity, cq->capacity());
  EXPECT_NE(held.cqs[0].uses, 0U);
  ASSERT_THAT(held.qps, SizeIs(1));
  EXPECT_EQ(held.qps[0].number, qp->number());
  EXPECT_EQ(held.qps[0].state, QpState::Init);
  EXPECT_EQ(held.qps[0].port, PortNumber{1});
  EXPECT_EQ(held.qps[0].pd, number);
  ASSERT_TRUE(hca_.destroy_qp(*qp));
  ASSERT_TRUE(hca_.destroy_srq(*srq));
  ASSERT_TRUE(hca_.deregister_memory(*region));
  EXPECT_THAT(hca_.held_objects().qps, IsEmpty());
  EXPECT_THAT(hca_.held_objects().mrs, IsEmpty());
  ASSERT_TRUE(hca_.deallocate_pd(*other));
  EXPECT_THAT(hca_.held_objects().pds, ElementsAre(Field(&HeldObjects::Pd::number, number)));
}

TEST_F(Held, NumbersAreGivenAgain) {
  ProtectionDomain* const first = *hca_.allocate_pd();
  static_cast<void>(*hca_.allocate_pd());
  const std::size_t before = hca_.held_objects().pds.size();
  ASSERT_TRUE(hca_.deallocate_pd(*first));
  static_cast<void>(*hca_.allocate_pd());
  const HeldObjects held = hca_.held_objects();
  EXPECT_THAT(held.pds, SizeIs(before));
  for (const HeldObjects::Pd& pd : held.pds) {
    EXPECT_LE(pd.number, 2U);
    EXPECT_GE(pd.number, 1U);
  }
  EXPECT_NE(held.pds[0].number, held.pds[1].number);
}

}  // namespace
}  // namespace weft::hca
