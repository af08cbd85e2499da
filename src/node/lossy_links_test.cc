// A subnet manager on a fabric with fault rules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "fabric/faults.h"
#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "subnet/subnet_manager.h"

namespace weft::node {
namespace {

using fabric::FaultKind;
using ::testing::IsEmpty;

/// Runs a manager on h1 of a fat tree on which every link applies the fault to 10 % of MADs.
void come_up_with(FaultKind kind, std::uint64_t seed) {
  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory{};
  testing::ManagedFabric fabric{*fabric::generate_fat_tree(4, 2),
                                fabric::FaultCounters::open(memory)};
  fabric::FaultDescription rule;
  rule.kind = kind;
  rule.parts_per_million = fabric::FaultDescription::kAlways / 10;
  rule.seed = seed;
  fabric.builder.set_faults(fabric::records_of(rule, 0, {}));
  const subnet::SubnetManager& manager = fabric.add_manager("h1");
  const Instant end = fabric.now + Duration::seconds(120);  // of virtual time
  const auto is_up = [&] { return manager.is_settled() && fabric.unreachable().empty(); };
  while (!is_up() && fabric.now < end) {
    fabric.run_for(Duration::seconds(1));
  }
  EXPECT_THAT(fabric.unreachable(), IsEmpty()) << "seed " << seed;
  EXPECT_GT(fabric::FaultCounters::open(memory).read(0).hit, 0U);
}

TEST(LossyLinks, DoNotKeepASubnetDown) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    come_up_with(FaultKind::Drop, seed);
  }
}

TEST(LossyLinks, DamageDoublesAndDelayDoNotEither) {
  for (const FaultKind kind : {FaultKind::Corrupt, FaultKind::Duplicate, FaultKind::Reorder}) {
    come_up_with(kind, 1);
  }
}

}  // namespace
}  // namespace weft::node
