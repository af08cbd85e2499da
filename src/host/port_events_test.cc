#include "host/port_events.h"

#include <gtest/gtest.h>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

/// All events: process_tables_test.cc.
TEST(PortEvents, FollowTheTables) {
  testing::LocalProcess process;
  const Lid before = process.lid();
  const Lid after{0x77};
  const fabric::PortIndex port = process.builder.node(fabric::NodeIndex{0}).first_port;
  process.builder.set_lid(port, after, 0);
  process.publish_tables();
  EXPECT_EQ(process.lid(), before);
  process.parts.ports.refresh();
  EXPECT_EQ(process.lid(), after);
  EXPECT_EQ(process.program.async_types,
            std::vector<hca::AsyncEventType>{hca::AsyncEventType::LidChange});
  process.parts.ports.refresh();
  EXPECT_EQ(process.program.async_types.size(), 1U) << "nothing has changed since";
}

}  // namespace
}  // namespace weft::host
