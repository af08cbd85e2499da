#include "ulp/opa_vnic/mac_list.h"

#include <gtest/gtest.h>

namespace weft::opa_vnic {
namespace {

using wire::MacAddress;

std::vector<MacAddress> macs(std::size_t count) {
  std::vector<MacAddress> list;
  for (std::size_t i = 1; i <= count; ++i) {
    list.push_back(MacAddress::from_number(i));
  }
  return list;
}

TEST(InterfaceMacs, CountTheirChangesAndOnlyThose) {  // R-VN-14
  InterfaceMacs list;
  EXPECT_TRUE(list.set(macs(2)));
  EXPECT_FALSE(list.set(macs(2)));
  EXPECT_EQ(list.generation(), 1);
  EXPECT_TRUE(list.set(macs(3)));
  EXPECT_EQ(list.generation(), 2);
  EXPECT_TRUE(list.set({}));
}

TEST(InterfaceMacs, AreReadByPages) {  // R-VN-10
  InterfaceMacs list;
  ASSERT_TRUE(list.set(macs(700)));
  const auto first = list.page(0, 0, {});
  EXPECT_EQ(first.macs.size(), 333U);
  EXPECT_EQ(first.total, 700);
  EXPECT_EQ(first.generation, 1);
  EXPECT_EQ(list.page(0, 0xFFFF, {}).macs.size(), 333U);  // never more than fit
  EXPECT_EQ(list.page(666, 0, {}).macs.size(), 34U);
  EXPECT_EQ(list.page(2, 3, {}).macs.front(), MacAddress::from_number(3));
  EXPECT_EQ(list.page(2, 3, {}).macs.size(), 3U);
  EXPECT_TRUE(list.page(701, 1, {}).macs.empty());
}

TEST(InterfaceMacs, OmitTheManagersOwnAddress) {  // R-VN-10
  InterfaceMacs list;
  ASSERT_TRUE(list.set(macs(3)));
  const auto page = list.page(0, 0, MacAddress::from_number(2));
  EXPECT_EQ(page.total, 2);
  EXPECT_EQ(page.macs, (std::vector{MacAddress::from_number(1), MacAddress::from_number(3)}));
}

}  // namespace
}  // namespace weft::opa_vnic
