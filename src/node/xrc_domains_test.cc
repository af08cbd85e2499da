#include "node/xrc_domains.h"

#include <gtest/gtest.h>

namespace weft::node {
namespace {

constexpr ProcessId kA{.host = fabric::NodeIndex{1}, .slot = 1};
constexpr ProcessId kB{.host = fabric::NodeIndex{1}, .slot = 2};
constexpr XrcDomains::Name kFile{.host = fabric::NodeIndex{1}, .hca = 0, .device = 7, .inode = 11};

TEST(XrcDomains, AreOneForAllWhoOpenOneFile) {
  XrcDomains domains;
  EXPECT_EQ(domains.open(kA, kFile, false, false).error().code, ErrorCode::TryAgain);
  const auto first = domains.open(kA, kFile, true, true);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_new);
  const auto second = domains.open(kB, kFile, false, false);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(second->domain, first->domain);
  EXPECT_EQ(domains.open(kB, kFile, true, true).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(domains.members(first->domain), (std::vector{kA, kB}));
}

TEST(XrcDomains, AreOthersOnAnotherHcaOrHostOrFile) {
  XrcDomains domains;
  const std::uint32_t first = domains.open(kA, kFile, true, false)->domain;
  XrcDomains::Name other = kFile;
  other.hca = 1;
  EXPECT_NE(domains.open(kA, other, true, false)->domain, first);
  other = kFile;
  other.host = fabric::NodeIndex{2};
  EXPECT_NE(domains.open(kA, other, true, false)->domain, first);
  other = kFile;
  other.inode = 12;
  EXPECT_NE(domains.open(kA, other, true, false)->domain, first);
}

TEST(XrcDomains, EndWithTheLastWhoHasThemOpen) {
  XrcDomains domains;
  const std::uint32_t domain = domains.open(kA, kFile, true, false)->domain;
  ASSERT_TRUE(domains.open(kB, kFile, true, false));
  EXPECT_FALSE(domains.close(kA, domain));
  EXPECT_FALSE(domains.has(kA, domain));
  EXPECT_TRUE(domains.of(kA).empty());
  EXPECT_FALSE(domains.close(kA, domain)) << "twice";
  EXPECT_TRUE(domains.close(kB, domain));
  EXPECT_TRUE(domains.members(domain).empty());
  EXPECT_NE(domains.open(kB, kFile, true, true)->domain, domain) << "numbers are not used again";
}

TEST(XrcDomains, OfOneProcessAreLimited) {
  XrcDomains domains;
  XrcDomains::Name name = kFile;
  for (std::size_t i = 0; i < XrcDomains::kMaxOfProcess; ++i) {
    name.inode = i;
    ASSERT_TRUE(domains.open(kA, name, true, false));
  }
  name.inode = XrcDomains::kMaxOfProcess;
  EXPECT_EQ(domains.open(kA, name, true, false).error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(domains.open(kB, name, true, false));
}

}  // namespace
}  // namespace weft::node
