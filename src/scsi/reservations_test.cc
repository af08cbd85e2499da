#include "scsi/reservations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Bytes;
using enum ReservationType;

NexusName nexus(unsigned name, std::uint16_t port = 1) {
  return {.initiator = testing::Bench::initiator(name), .port = PortId{port}};
}
const NexusName kA = nexus(1);
const NexusName kB = nexus(2);
const NexusName kC = nexus(3);

const Reservations::Facts kFacts{
    .ports = {PortId{1}, PortId{2}},
      .can_persist = true
};

Bytes list(std::uint64_t key, std::uint64_t action_key, std::uint8_t flags = 0) {
  return [&] {
    ParameterData data;
    data.add(8, key).add(8, action_key).add(4, 0).add(1, flags).add(3, 0);
    return Bytes(data.octets().begin(), data.octets().end());
  }();
}

Outcome<ReservationChange> out(Reservations& r, const NexusName& by, ReserveAction action,
                               const Bytes& parameters, ReservationType type = None) {
  return r.out(
      by, {.action = action, .scope_and_type = std::to_underlying(type), .parameters = parameters},
      kFacts);
}

Status status(const Outcome<ReservationChange>& outcome) {
  return outcome ? Status::Good : outcome.error().status;
}

Reservations registered() {
  Reservations r;
  EXPECT_TRUE(out(r, kA, ReserveAction::Register, list(0, 0xA)));
  EXPECT_TRUE(out(r, kB, ReserveAction::Register, list(0, 0xB)));
  return r;
}

std::vector<std::uint64_t> keys(const Reservations& r) {
  const ParameterData data = r.read_keys();
  std::vector<std::uint64_t> found;
  for (std::size_t at = 8; at < data.size(); at += 8) {
    found.push_back(load64(data.octets(), at));
  }
  return found;
}

TEST(Reservations, RegisterChecksTheOldKeyUnlessIgnored) {  // SPC-4 §5.13.7, Tables 50 and 51
  Reservations r;
  EXPECT_EQ(status(out(r, kA, ReserveAction::Register, list(1, 2))), Status::ReservationConflict);
  EXPECT_EQ(status(out(r, kA, ReserveAction::Register, list(0, 2))), Status::Good);
  EXPECT_EQ(status(out(r, kA, ReserveAction::Register, list(9, 3))), Status::ReservationConflict);
  EXPECT_EQ(status(out(r, kA, ReserveAction::Register, list(2, 3))), Status::Good);
  EXPECT_EQ(keys(r), std::vector<std::uint64_t>{3});
  EXPECT_EQ(status(out(r, kA, ReserveAction::RegisterAndIgnore, list(77, 4))), Status::Good);
  EXPECT_EQ(keys(r), std::vector<std::uint64_t>{4});
  EXPECT_EQ(r.generation(), 3u);
  EXPECT_EQ(status(out(r, kA, ReserveAction::Register, list(4, 0))), Status::Good);
  EXPECT_TRUE(keys(r).empty());
}

TEST(Reservations, EachTypeAdmitsWhomTable48Names) {  // SPC-4 Table 48
  struct Row {
    ReservationType type;
    bool reads_registered, writes_registered, reads_others, writes_others;
  };
  constexpr Row kRows[] = {
      {WriteExclusive,                 true,  false, true,  false},
      {ExclusiveAccess,                false, false, false, false},
      {WriteExclusiveRegistrantsOnly,  true,  true,  true,  false},
      {ExclusiveAccessRegistrantsOnly, true,  true,  false, false},
      {WriteExclusiveAllRegistrants,   true,  true,  true,  false},
      {ExclusiveAccessAllRegistrants,  true,  true,  false, false},
  };
  for (const Row& row : kRows) {
    Reservations r = registered();
    ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), row.type));
    const std::string type = std::to_string(std::to_underlying(row.type));
    EXPECT_FALSE(r.conflicts(kA, ReservationClass::Write)) << type;
    EXPECT_EQ(!r.conflicts(kB, ReservationClass::Read), row.reads_registered) << type;
    EXPECT_EQ(!r.conflicts(kB, ReservationClass::Write), row.writes_registered) << type;
    EXPECT_EQ(!r.conflicts(kC, ReservationClass::Read), row.reads_others) << type;
    EXPECT_EQ(!r.conflicts(kC, ReservationClass::Write), row.writes_others) << type;
    EXPECT_FALSE(r.conflicts(kC, ReservationClass::Harmless)) << type;
    EXPECT_FALSE(r.conflicts(kC, ReservationClass::Always)) << type;
  }
}

TEST(Reservations, OnlyTheHolderReservesAgainAndReleases) {  // SPC-4 §5.13.9, §5.13.11.2.2
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), WriteExclusiveRegistrantsOnly));
  EXPECT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), WriteExclusiveRegistrantsOnly));
  EXPECT_EQ(status(out(r, kA, ReserveAction::Reserve, list(0xA, 0), WriteExclusive)),
            Status::ReservationConflict);
  EXPECT_EQ(status(out(r, kB, ReserveAction::Reserve, list(0xB, 0), WriteExclusive)),
            Status::ReservationConflict);
  EXPECT_TRUE(out(r, kB, ReserveAction::Release, list(0xB, 0), WriteExclusive));  // no effect
  EXPECT_EQ(out(r, kA, ReserveAction::Release, list(0xA, 0), WriteExclusive).error().sense.code,
            SenseCode::InvalidReleaseOfPersistentReservation);
  const auto released =
      out(r, kA, ReserveAction::Release, list(0xA, 0), WriteExclusiveRegistrantsOnly);
  ASSERT_TRUE(released);
  ASSERT_EQ(released->attentions.size(), 1u);
  EXPECT_EQ(released->attentions[0].nexus, kB);
  EXPECT_EQ(released->attentions[0].code, SenseCode::ReservationsReleased);
  EXPECT_FALSE(r.conflicts(kC, ReservationClass::Write));
}

TEST(Reservations, PreemptTakesTheHoldersReservation) {  // SPC-4 §5.13.11.2.4
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), ExclusiveAccess));
  EXPECT_EQ(status(out(r, kB, ReserveAction::Preempt, list(0xB, 0x99), WriteExclusive)),
            Status::ReservationConflict);
  EXPECT_EQ(out(r, kB, ReserveAction::Preempt, list(0xB, 0), WriteExclusive).error().sense.code,
            SenseCode::InvalidFieldInParameterList);
  const auto taken = out(r, kB, ReserveAction::PreemptAndAbort, list(0xB, 0xA), WriteExclusive);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->attentions.at(0).code, SenseCode::RegistrationsPreempted);
  EXPECT_EQ(taken->aborted, std::vector{kA});
  EXPECT_EQ(keys(r), std::vector<std::uint64_t>{0xB});
  EXPECT_TRUE(r.conflicts(kA, ReservationClass::Write));
  EXPECT_FALSE(r.conflicts(kA, ReservationClass::Read));
  EXPECT_EQ(load8(r.read_reservation().octets(), 21), std::to_underlying(WriteExclusive));
}

TEST(Reservations, PreemptOfOtherKeysRemovesRegistrationsOnly) {
  Reservations r = registered();
  ASSERT_TRUE(out(r, kC, ReserveAction::Register, list(0, 0xC)));
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), ExclusiveAccess));
  ASSERT_TRUE(out(r, kB, ReserveAction::Preempt, list(0xB, 0xC), WriteExclusive));
  EXPECT_EQ(keys(r), (std::vector<std::uint64_t>{0xA, 0xB}));
  EXPECT_EQ(load64(r.read_reservation().octets(), 8), 0xAu);  // A's still
}

TEST(Reservations, PreemptWithKeyZeroTakesAReservationOfAllRegistrants) {
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), ExclusiveAccessAllRegistrants));
  EXPECT_EQ(load64(r.read_reservation().octets(), 8), 0u);
  ASSERT_TRUE(out(r, kB, ReserveAction::Preempt, list(0xB, 0), WriteExclusive));
  EXPECT_EQ(keys(r), std::vector<std::uint64_t>{0xB});
  EXPECT_EQ(load64(r.read_reservation().octets(), 8), 0xBu);
}

TEST(Reservations, AReservationOfAllRegistrantsEndsWithTheLast) {  // SPC-4 §5.13.11.2.3
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), WriteExclusiveAllRegistrants));
  ASSERT_TRUE(out(r, kA, ReserveAction::Register, list(0xA, 0)));
  EXPECT_TRUE(r.conflicts(kA, ReservationClass::Write));
  ASSERT_TRUE(out(r, kB, ReserveAction::Register, list(0xB, 0)));
  EXPECT_FALSE(r.conflicts(kA, ReservationClass::Write));
}

TEST(Reservations, ClearTellsAllOthers) {  // SPC-4 §5.13.11.2.6
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), ExclusiveAccess));
  const auto cleared = out(r, kB, ReserveAction::Clear, list(0xB, 0));
  ASSERT_TRUE(cleared);
  ASSERT_EQ(cleared->attentions.size(), 1u);
  EXPECT_EQ(cleared->attentions[0].nexus, kA);
  EXPECT_EQ(cleared->attentions[0].code, SenseCode::ReservationsPreempted);
  EXPECT_TRUE(keys(r).empty());
}

TEST(Reservations, AllTargetPortsRegistersThroughEach) {
  Reservations r;
  ASSERT_TRUE(out(r, kA, ReserveAction::Register, list(0, 5, 0x04)));
  EXPECT_EQ(keys(r), (std::vector<std::uint64_t>{5, 5}));
  ASSERT_TRUE(out(r, nexus(1, 2), ReserveAction::Reserve, list(5, 0), ExclusiveAccess));
  EXPECT_TRUE(r.conflicts(kA, ReservationClass::Write));
}

TEST(Reservations, RegisterAndMoveGivesTheReservationAway) {  // SPC-4 §5.13.8
  Reservations r = registered();
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), ExclusiveAccess));
  ParameterData move;
  move.add(8, 0xA).add(8, 0xCC).add(1, 0).add(1, 0x02).add(2, 2).add(4, 24);
  move.add(nexus(3, 2).initiator);
  const Bytes octets(move.octets().begin(), move.octets().end());
  EXPECT_EQ(status(out(r, kB, ReserveAction::RegisterAndMove, octets)),
            Status::ReservationConflict);
  ASSERT_TRUE(out(r, kA, ReserveAction::RegisterAndMove, octets));
  EXPECT_EQ(keys(r), (std::vector<std::uint64_t>{0xB, 0xCC}));
  EXPECT_FALSE(r.conflicts(nexus(3, 2), ReservationClass::Write));
  EXPECT_TRUE(r.conflicts(kA, ReservationClass::Write));
}

TEST(Reservations, ReserveOfSpc2AndRegistrationsExclude) {  // SPC-3 §5.6.3
  Reservations r;
  ASSERT_TRUE(r.legacy_reserve(kA));
  EXPECT_EQ(r.legacy_reserve(kB).error().status, Status::ReservationConflict);
  EXPECT_TRUE(r.conflicts(kB, ReservationClass::Harmless));
  EXPECT_TRUE(r.conflicts(kB, ReservationClass::Management));
  EXPECT_FALSE(r.conflicts(kB, ReservationClass::Always));
  EXPECT_TRUE(r.legacy_release(kB));  // GOOD, without effect
  EXPECT_TRUE(r.conflicts(kB, ReservationClass::Harmless));
  ASSERT_TRUE(r.legacy_release(kA));
  r = registered();
  EXPECT_FALSE(r.legacy_reserve(kC));
  EXPECT_FALSE(r.legacy_reserve(kA));  // registered, but nothing is reserved
  ASSERT_TRUE(out(r, kA, ReserveAction::Reserve, list(0xA, 0), WriteExclusiveRegistrantsOnly));
  EXPECT_TRUE(r.legacy_reserve(kB));
  EXPECT_FALSE(r.conflicts(kA, ReservationClass::Write));  // it had no effect
}

TEST(Reservations, ImageKeepsWhatAptplAskedFor) {  // SPC-4 §5.13.5
  Reservations r;
  ASSERT_TRUE(out(r, kA, ReserveAction::Register, list(0, 0xA, 0x01))->must_be_saved);
  ASSERT_TRUE(out(r, kB, ReserveAction::Register, list(0, 0xB, 0x01)));
  ASSERT_TRUE(out(r, kB, ReserveAction::Reserve, list(0xB, 0), ExclusiveAccess)->must_be_saved);
  Reservations again;
  const auto image = r.image();
  ASSERT_TRUE(again.restore(image));
  EXPECT_EQ(keys(again), keys(r));
  EXPECT_TRUE(std::ranges::equal(again.read_full_status().octets(), r.read_full_status().octets()));
  EXPECT_TRUE(again.conflicts(kA, ReservationClass::Read));
  EXPECT_EQ(load8(again.report_capabilities(kFacts).octets(), 3) & 1, 1);
}

TEST(Reservations, ImageOfVolatileRegistrationsIsEmptyAndDamageIsNoticed) {
  Reservations r = registered();
  Reservations again;
  ASSERT_TRUE(again.restore(r.image()));
  EXPECT_TRUE(keys(again).empty());
  ASSERT_TRUE(out(r, kA, ReserveAction::Register, list(0xA, 0xA, 0x01)));
  const auto image = r.image();
  for (std::size_t i = 0; i < image.size(); ++i) {
    auto damaged = image;
    damaged[i] ^= std::byte{0x10};
    const bool unused = i == 6 || i == 7;
    EXPECT_EQ(again.restore(damaged).has_value(), unused) << i;
    EXPECT_FALSE(again.restore(ByteSpan{image}.first(i)).has_value()) << i;
  }
}

TEST(Reservations, ParameterListsHaveTheirLengthAndNoSpecIPt) {  // SPC-4 §6.16.3
  Reservations r;
  Bytes shorter = list(0, 1);
  shorter.pop_back();
  EXPECT_EQ(out(r, kA, ReserveAction::Register, shorter).error().sense.code,
            SenseCode::ParameterListLengthError);
  EXPECT_EQ(out(r, kA, ReserveAction::Register, list(0, 1, 0x08)).error().sense.code,
            SenseCode::InvalidFieldInParameterList);
  EXPECT_FALSE(r.out(kA, {.action = ReserveAction::Register, .parameters = list(0, 1, 1)}, {}));
}

}  // namespace
}  // namespace weft::scsi
