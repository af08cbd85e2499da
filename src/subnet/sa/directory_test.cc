#include "subnet/sa/directory.h"

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"

namespace weft::subnet {
namespace {

class Directory : public ::testing::Test {
 protected:
  void SetUp() override { refresh(); }
  void refresh() {
    ++subnet.generation;
    directory.refresh(subnet);
  }
  SaLab lab;
  Subnet& subnet = lab.control.model;
  SaDirectory directory;
};

TEST_F(Directory, HoldsPortsWithLids) {
  EXPECT_EQ(directory.end_ports().size(), 6U);
  subnet.set_lids(lab.h2, Lid{}, 0);
  EXPECT_EQ(directory.end_ports().size(), 6U) << "the generation is the same";
  refresh();
  EXPECT_EQ(directory.end_ports().size(), 5U);
  EXPECT_FALSE(directory.find_gid(subnet, lab.gid(lab.h2)));
}

TEST_F(Directory, FindsGidsOfTheSubnetsAndTheDefaultPrefix) {
  subnet.subnet_prefix = 0xFEC0'0000'0000'0007;
  EXPECT_EQ(directory.find_gid(subnet, lab.gid(lab.h3)), lab.h3);
  EXPECT_EQ(directory.find_gid(subnet, Gid{kDefaultGidPrefix, Guid{kPortGuid + 3}}), lab.h3);
  EXPECT_FALSE(directory.find_gid(subnet, Gid{1, Guid{kPortGuid + 3}}));
  EXPECT_FALSE(directory.find_gid(subnet, Gid{kDefaultGidPrefix, Guid{}}));
}

TEST_F(Directory, FindsAliasGuids) {
  subnet.port(lab.h3).guids[3] = Guid{0x77};
  refresh();
  EXPECT_EQ(directory.find_gid(subnet, Gid{kDefaultGidPrefix, Guid{0x77}}), lab.h3);
}

TEST_F(Directory, KeepsKeysByKind) {
  const PartitionKind k1 = directory.kind_of(subnet, lab.h1);
  const PartitionKind k2 = directory.kind_of(subnet, lab.h2);
  const PartitionKind k4 = directory.kind_of(subnet, lab.h4);
  EXPECT_EQ(k1, directory.kind_of(subnet, lab.h3));
  EXPECT_EQ(k1, directory.kind_of(subnet, {lab.s1, PortNumber{3}})) << "as port 0 of the switch";
  EXPECT_NE(k1, k2);
  EXPECT_EQ(directory.shared_key(k1, k2), kDefaultPKey);
  EXPECT_EQ(directory.shared_key(k2, k4), SaLab::kOtherPKey);
  EXPECT_FALSE(directory.shared_key(k1, k4));
  EXPECT_FALSE(directory.shared_key(k1, k2, SaLab::kOtherPKey));
  EXPECT_TRUE(directory.has_key(k4, PKey{0x0001}));
  EXPECT_FALSE(directory.has_key(k4, kDefaultPKey));
}

TEST_F(Directory, TakesATableThatWasNotReadForTheDefaultOne) {
  subnet.port(lab.h4).pkeys.clear();
  refresh();
  EXPECT_TRUE(directory.has_key(directory.kind_of(subnet, lab.h4), kDefaultPKey));
}

}  // namespace
}  // namespace weft::subnet
