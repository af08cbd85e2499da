#include "subnet/sa/services.h"

#include <gtest/gtest.h>

namespace weft::subnet {
namespace {

constexpr Guid kOwner{1};

[[nodiscard]] wire::ServiceRecord service(std::uint64_t id, std::uint32_t lease) {
  return {.service_id = id, .service_pkey = kDefaultPKey, .service_lease = lease};
}
[[nodiscard]] Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }

TEST(SaServices, EndWithTheirLease) {
  Services services{{}};
  services.set(service(1, 2), kOwner, at(10));
  services.set(service(2, wire::kIndefiniteLease), kOwner, at(10));
  EXPECT_EQ(services.deadline(), at(12));
  services.handle_timeout(at(12) - Duration::nanoseconds(1));
  EXPECT_EQ(services.all().size(), 2U);
  services.handle_timeout(at(12));
  EXPECT_EQ(services.all().size(), 1U);
  EXPECT_EQ(services.deadline(), Instant::never());
}

TEST(SaServices, ThatAreSetAgainHaveANewLease) {
  Services services{{}};
  services.set(service(1, 2), kOwner, at(10));
  services.set(service(1, 5), kOwner, at(11));
  EXPECT_EQ(services.all().size(), 1U);
  EXPECT_EQ(services.deadline(), at(16));
  services.set(service(1, wire::kIndefiniteLease), kOwner, at(12));
  EXPECT_EQ(services.deadline(), Instant::never());
}

TEST(SaServices, HaveALimitInAllAndForEachPort) {
  Services services{
      {.services = 3, .services_of_port = 2}
  };
  services.set(service(1, 9), kOwner, at(0));
  services.set(service(2, 9), kOwner, at(0));
  EXPECT_FALSE(services.has_room_for(kOwner));
  EXPECT_TRUE(services.has_room_for(Guid{2}));
  services.set(service(3, 9), Guid{2}, at(0));
  EXPECT_FALSE(services.has_room_for(Guid{2}));
  services.remove(name_of(service(1, 9)));
  EXPECT_TRUE(services.has_room_for(kOwner));
}

}  // namespace
}  // namespace weft::subnet
