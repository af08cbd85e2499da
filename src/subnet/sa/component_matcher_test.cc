#include "subnet/sa/component_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/service_record.h"

namespace weft::subnet {
namespace {

TEST(ComponentMatcher, WithoutComponentsMatchesEverything) {
  const ComponentMatcher<wire::PathRecord> any{{}, 0};
  EXPECT_TRUE(any.matches({.dlid = Lid{7}}));
}

TEST(ComponentMatcher, ComparesOnlyNamedComponents) {
  constexpr auto kMask =
      wire::kComponent<wire::PathRecord, "DLID"> | wire::kComponent<wire::PathRecord, "SL">;
  const ComponentMatcher<wire::PathRecord> matcher{
      {.dlid = Lid{7}, .slid = Lid{9}, .sl = ServiceLevel{3}},
      kMask
  };
  EXPECT_TRUE(matcher.matches({.dlid = Lid{7}, .slid = Lid{1}, .sl = ServiceLevel{3}}));
  EXPECT_FALSE(matcher.matches({.dlid = Lid{6}, .sl = ServiceLevel{3}}));
  EXPECT_FALSE(matcher.matches({.dlid = Lid{7}, .sl = ServiceLevel{2}}));
}

/// Compares the matcher with the definition, wire::components_match.
template <class T>
void agrees_with_the_definition(std::uint64_t seed) {
  Random random{seed};
  for (int i = 0; i < 2'000; ++i) {
    const T wanted = wire::arbitrary<T>(random);
    const std::uint64_t mask = random() & random() & random();
    T record = random.chance(1, 4) ? wire::arbitrary<T>(random) : wanted;
    auto bytes = wire::pack(record);
    if (random.chance(1, 2)) {
      bytes[random.below(bytes.size())] ^= std::byte{1} << random.below(8);
      record = wire::unpack<T>(bytes);
    }
    EXPECT_EQ((ComponentMatcher<T>{wanted, mask}.matches(record)),
              wire::components_match(wanted, record, mask));
  }
}

TEST(ComponentMatcher, AgreesWithTheDefinition) {
  agrees_with_the_definition<wire::PathRecord>(1);
  agrees_with_the_definition<wire::McMemberRecord>(2);
  agrees_with_the_definition<wire::ServiceRecord>(3);
  agrees_with_the_definition<wire::NodeRecord>(4);
  agrees_with_the_definition<wire::MulticastForwardingTableRecord>(5);
}

}  // namespace
}  // namespace weft::subnet
