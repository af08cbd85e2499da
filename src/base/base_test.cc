#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/boxed.h"
#include "base/identifiers.h"
#include "base/intrusive_list.h"
#include "base/keys.h"
#include "base/lock.h"
#include "base/process_slot.h"
#include "base/random.h"
#include "base/result.h"
#include "base/serial.h"
#include "base/time.h"

namespace weft {
namespace {

TEST(Psn, DistanceIsSignedModulo2To24) {
  EXPECT_EQ(distance(Psn{5}, Psn{7}), 2);
  EXPECT_EQ(distance(Psn{7}, Psn{5}), -2);
  EXPECT_EQ(distance(Psn{0xFFFFFF}, Psn{0}), 1);
  EXPECT_EQ(distance(Psn{0}, Psn{0x7FFFFF}), 0x7FFFFF);
  EXPECT_EQ(distance(Psn{0}, Psn{0x800000}), -0x800000);
  EXPECT_TRUE(is_before(Psn{0xFFFFFE}, Psn{1}));
  EXPECT_FALSE(is_before(Psn{1}, Psn{1}));
}

TEST(PKey, MatchesWhenOneSideIsAFullMemberOfTheSamePartition) {
  EXPECT_TRUE(PKey{0xFFFF}.matches(PKey{0x7FFF}));
  EXPECT_FALSE(PKey{0x7FFF}.matches(PKey{0x7FFF}));
  EXPECT_FALSE(PKey{0x8001}.matches(PKey{0x8002}));
  EXPECT_FALSE(PKey{0x8000}.matches(PKey{0x8000}));  // partition 0 is invalid
}

TEST(Gid, KeepsPrefixAndInterfaceIdInWireOrder) {
  const Gid gid{kDefaultGidPrefix, Guid{0x0002'C903'0000'0001}};
  EXPECT_EQ(gid.octets()[0], std::byte{0xFE});
  EXPECT_EQ(gid.octets()[15], std::byte{0x01});
  EXPECT_EQ(gid.prefix(), kDefaultGidPrefix);
  EXPECT_EQ(gid.interface_id(), Guid{0x0002'C903'0000'0001});
  EXPECT_FALSE(gid.is_multicast());
}

TEST(TimeoutExponent, IsFourMicrosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(TimeoutExponent{14}.duration().nanoseconds(), 67'108'864);
  EXPECT_TRUE(TimeoutExponent{0}.is_infinite());
  EXPECT_EQ(TimeScale{}.apply(TimeoutExponent{31}.duration()), TimeoutExponent{31}.duration());
  EXPECT_EQ(TimeScale{100'000}.apply(TimeoutExponent{14}.duration()).nanoseconds(), 6'710'887);
  EXPECT_EQ(TimeScale{TimeScale::kMin}.apply(Duration::nanoseconds(1)).nanoseconds(), 1);
  EXPECT_EQ(TimeScale{TimeScale::kMax}.apply(TimeoutExponent{31}.duration()),
            TimeoutExponent{31}.duration() * 1'000);
}

TEST(Random, SameSeedSameSequenceAndBelowStaysBelow) {
  Random a{42};
  Random b{42};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(a(), b());
    EXPECT_LT(a.below(7), 7U);
    b();
  }
}

TEST(Error, CarriesItsReason) {
  const Result<int> result = fail(ErrorCode::InvalidArgument, "port {} is not in 1..{}", 3, 2);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().reason, "port 3 is not in 1..2");
}

TEST(PolicyLock, SpinExcludesAndNoneDoesNot) {
  PolicyLock spin{LockPolicy::Spin};
  EXPECT_TRUE(spin.try_lock());
  EXPECT_FALSE(spin.try_lock());
  spin.unlock();
  EXPECT_TRUE(spin.try_lock());
  spin.unlock();
  PolicyLock none{LockPolicy::None};
  EXPECT_TRUE(none.try_lock());
  EXPECT_TRUE(none.try_lock());
}

struct ReadyTag;
struct Item : ListHook<ReadyTag> {
  explicit Item(int value) : number(value) {}
  int number;
};

TEST(IntrusiveList, KeepsOrderAndForgetsRemoved) {
  Item one{1};
  Item two{2};
  Item three{3};
  IntrusiveList<Item, ReadyTag> list;
  list.push_back(one);
  list.push_back(two);
  list.push_back(three);
  IntrusiveList<Item, ReadyTag>::remove(two);
  EXPECT_FALSE(two.is_linked());
  EXPECT_EQ(list.pop_front().number, 1);
  EXPECT_EQ(list.pop_front().number, 3);
  EXPECT_TRUE(list.empty());
}

TEST(Boxed, HasAValueFromItsAssignmentToItsReset) {
  Boxed<std::string> box;
  EXPECT_FALSE(box.has_value());
  box = "one";
  const std::string* const place = &*box;
  box = "two";
  EXPECT_EQ(*box, "two");
  EXPECT_EQ(&*box, place);  // what others point to stays
  Boxed<std::string> other = std::move(box);
  EXPECT_FALSE(box);  // NOLINT(bugprone-use-after-move): moving leaves none
  EXPECT_EQ(other->size(), 3U);
  other.reset();
  EXPECT_FALSE(other);
}

TEST(Qpn, NamesItsProcess) {
  EXPECT_EQ(slot_of(Qpn{0}), 0U);
  EXPECT_EQ(slot_of(first_qpn_of(1023)), 1023U);
  EXPECT_EQ(slot_of(Qpn{first_qpn_of(5).value() + 16'383}), 5U);
}

}  // namespace
}  // namespace weft
