#include "host/lane_binder.h"

#include <gtest/gtest.h>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using testing::LocalProcess;

TEST(LaneBinder, LetsTheCqLookAtTheLaneOfItsQp) {
  LocalProcess process;
  hca::Qp& a = process.make_qp();
  hca::Qp& b = process.make_qp();
  const auto& cq = *static_cast<CqDriverState*>(process.cq->driver_data);
  EXPECT_EQ(cq.only_lane.load(), nullptr);
  process.connect(a, b.number());
  EXPECT_EQ(cq.only_lane.load(), &process.lane_of(a));
  EXPECT_TRUE(cq.lanes.has(process.lane_of(a).number));
  EXPECT_FALSE(process.parts.binder.bind(LocalProcess::state_of(a))) << "it is bound already";
}

TEST(LaneBinder, BindsAnewWhenALidIsGone) {
  LocalProcess process;
  hca::Qp& a = process.make_qp();
  process.connect(a, a.number());
  EXPECT_EQ(process.lane_of(a).peer, LocalProcess::kSelf);
  process.builder.set_lid(process.builder.node(fabric::NodeIndex{0}).first_port, Lid{0x77}, 0);
  process.publish_tables();
  EXPECT_TRUE(process.parts.binder.bind(LocalProcess::state_of(a)));
  EXPECT_EQ(&process.lane_of(a), &process.parts.lanes.null_lane());
}

TEST(LaneBinder, RemembersTheLaneOfTheNewestDatagram) {
  LocalProcess process;
  hca::Qp& qp = process.make_qp(hca::QpType::Ud);
  QpDriverState& state = LocalProcess::state_of(qp);
  hca::PacketHeader header;
  header.dlid = process.lid();
  header.dest_qp = qp.number();
  LaneBinder& binder = process.parts.binder;
  EXPECT_FALSE(binder.bind(state)) << "datagrams have no lane of their own";
  EXPECT_FALSE(binder.knows_lane(state, header));
  Lane& lane = binder.lane_of(state, header);
  EXPECT_EQ(lane.peer, LocalProcess::kSelf);
  EXPECT_TRUE(binder.knows_lane(state, header));
  header.dlid = Lid{0x77};
  EXPECT_FALSE(binder.knows_lane(state, header)) << "another destination";
  EXPECT_EQ(&binder.lane_of(state, header), &process.parts.lanes.null_lane());
  EXPECT_FALSE(binder.knows_lane(state, header)) << "nobody is there now, but somebody may come";
  header.dlid = process.lid();
  EXPECT_EQ(&binder.lane_of(state, header), &lane);
  process.publish_tables();
  EXPECT_FALSE(binder.knows_lane(state, header)) << "the tables are new";
}

}  // namespace
}  // namespace weft::host
