#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scsi/protection.h"
#include "scsi/testing/bench_target.h"
#include "scsi/third_party_copy.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::cdb16;
using testing::Exchange;
using testing::pattern;

constexpr std::uint32_t kInvalidField =
    testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb);

std::uint32_t illegal(SenseCode code) { return testing::sense(SenseKey::IllegalRequest, code); }
std::uint32_t aborted(SenseCode code) { return testing::sense(SenseKey::CopyAborted, code); }

/// A parameter list under construction (SPC-4 Table 103).
struct List {
  std::uint8_t identifier{1};
  std::uint8_t usage{};
  std::vector<Bytes> targets;
  std::vector<Bytes> segments;

  [[nodiscard]] Bytes octets() const {
    Bytes out(16);
    store_number(out, 0, 1, identifier);
    store_number(out, 1, 1, unsigned{usage} << 3);
    for (const auto* part : {&targets, &segments}) {
      const std::size_t before = out.size();
      for (const Bytes& descriptor : *part) {
        out.insert(out.end(), descriptor.begin(), descriptor.end());
      }
      store_number(out, part == &targets ? 2 : 8, part == &targets ? 2 : 4, out.size() - before);
    }
    return out;
  }
};

Bytes target(std::uint64_t naa = UnitOptions{}.naa) {
  Bytes out(32);
  store_number(out, 0, 1, 0xE4);
  store_number(out, 4, 2, 0x0103);  // binary, NAA
  store_number(out, 7, 1, 8);
  store_number(out, 8, 8, naa);
  store_number(out, 29, 3, 512);
  return out;
}

Bytes segment(std::uint64_t source, std::uint64_t destination, std::uint16_t blocks,
              std::uint16_t to = 0, std::uint16_t from = 0) {
  Bytes out(28);
  store_number(out, 0, 1, 0x02);
  store_number(out, 2, 2, 24);
  store_number(out, 4, 2, from);
  store_number(out, 6, 2, to);
  store_number(out, 10, 2, blocks);
  store_number(out, 12, 8, source);
  store_number(out, 20, 8, destination);
  return out;
}

Bytes copy_cdb(std::size_t length) { return cdb16(0x83, 0, length); }

Answer copy(Bench& bench, NexusId nexus, const List& list) {
  const Bytes octets = list.octets();
  return bench.run(nexus, copy_cdb(octets.size()), octets);
}

Answer status_of(Bench& bench, NexusId nexus, unsigned identifier) {
  Bytes cdb = cdb16(0x84, 0, 64);
  store_number(cdb, 2, 1, identifier);
  return bench.run(nexus, cdb, {}, 64);
}

Bytes blocks(Bench& bench, NexusId nexus, std::uint64_t lba, std::uint16_t count) {
  return bench.run(nexus, cdb10(0x28, lba, count), {}, count * 512u).data;
}

TEST(ExtendedCopy, CopiesSegmentAfterSegment) {  // SPC-4 §5.17.7
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Bytes data = pattern(600 * 512, 5);
  ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 0, 600), data).good());
  const Answer answer =
      copy(bench, nexus,
           {
               .targets = {target()},
               .segments = {segment(0, 1000, 600), segment(1599, 1999, 1), segment(3, 3, 0)}
  });
  ASSERT_TRUE(answer.good());
  EXPECT_EQ(blocks(bench, nexus, 1000, 600), data);
  EXPECT_TRUE(std::ranges::equal(blocks(bench, nexus, 1999, 1),
                                 ByteSpan{data}.subspan(std::size_t{599} * 512)));
  EXPECT_EQ(blocks(bench, nexus, 2000, 1), Bytes(512));
}

TEST(ExtendedCopy, WhatOverlapsEndsWithWhatWasAtTheSource) {
  for (const auto& [from, to] : {
           std::pair{100u, 350u},
           std::pair{350u, 100u},
           std::pair{7u,   7u  }
  }) {
    Bench bench;
    const NexusId nexus = bench.open(1);
    const Bytes data = pattern(1200 * 512, 5);  // several chunks
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, from, 1200), data).good());
    ASSERT_TRUE(
        copy(bench, nexus, {.targets = {target()}, .segments = {segment(from, to, 1200)}}).good());
    EXPECT_EQ(blocks(bench, nexus, to, 1200), data) << from << " to " << to;
  }
}

TEST(ExtendedCopy, GivesTheCopyReferenceTagsOfItsOwn) {  // SBC-3 §4.22
  for (const auto type : {ProtectionType::Type1, ProtectionType::Type2, ProtectionType::Type3}) {
    Bench bench({
        .unit = {.serial = "SN01", .protection = type},
          .keeps_protection = true
    });
    const NexusId nexus = bench.open(1);
    const Bytes data = pattern(3 * 512, 5);
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 9, 3), data).good());
    ASSERT_TRUE(
        copy(bench, nexus, {.targets = {target()}, .segments = {segment(9, 700, 3)}}).good());
    EXPECT_EQ(blocks(bench, nexus, 700, 3), data);  // and its tuples are right
  }
}

TEST(ExtendedCopy, RefusesWhatItCannotCopyBeforeItCopiesAnything) {  // SPC-4 §6.4
  Bench bench;
  const NexusId nexus = bench.open(1);
  ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 0, 1), pattern(512, 5)).good());
  const Bytes good = segment(0, 10, 1);
  Bytes other_kind = target();
  other_kind[0] = std::byte{0xE0};
  Bytes stream = good;
  stream[0] = std::byte{0x03};
  Bytes tape = target();
  tape[1] = std::byte{0x01};
  const std::vector<std::pair<List, std::uint32_t>> cases{
      {{.targets = std::vector<Bytes>(kMaxCopyTargets + 1, target()), .segments = {good}},
       illegal(SenseCode::TooManyTargetDescriptors)                                                                                                },
      {{.targets = {target()}, .segments = std::vector<Bytes>(kMaxCopySegments + 1, good)},
       illegal(SenseCode::TooManySegmentDescriptors)                                                                                               },
      {{.targets = {other_kind}, .segments = {good}},
       illegal(SenseCode::UnsupportedTargetDescriptorTypeCode)                                                                                     },
      {{.targets = {target()}, .segments = {good, stream}},
       illegal(SenseCode::UnsupportedSegmentDescriptorTypeCode)                                                                                    },
      {{.targets = std::vector<Bytes>(kMaxCopyListBytes / 32 + 1, target()), .segments = {good}},
       illegal(SenseCode::ParameterListLengthError)                                                                                                },
      {{.targets = {tape}, .segments = {good}},                                                   aborted(SenseCode::IncorrectCopyTargetDeviceType)},
      {{.targets = {target(5)}, .segments = {good}},
       aborted(SenseCode::CopyTargetDeviceNotReachable)                                                                                            },
      {{.targets = {target()}, .segments = {good, segment(0, 10, 1, 1)}},
       aborted(SenseCode::UnreachableCopyTarget)                                                                                                   },
      {{.targets = {target()}, .segments = {good, segment(0, 2047, 2)}},                          aborted(SenseCode::None)                         },
      {{.usage = 1, .targets = {target()}, .segments = {good}},
       illegal(SenseCode::InvalidFieldInParameterList)                                                                                             },
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(copy(bench, nexus, cases[i].first).sense(), cases[i].second) << i;
    EXPECT_EQ(blocks(bench, nexus, 10, 1), Bytes(512)) << i;
  }
}

TEST(ExtendedCopy, AListThatIsCutOffAnywhereIsRefused) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  const List list{.targets = {target()}, .segments = {segment(0, 10, 1)}};
  const Bytes octets = list.octets();
  EXPECT_TRUE(bench.run(nexus, copy_cdb(0)).good());
  for (std::size_t length = 1; length < octets.size(); ++length) {
    const Bytes part(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(bench.run(nexus, copy_cdb(length), part).sense(),
              illegal(SenseCode::ParameterListLengthError))
        << length;
  }
}

TEST(ExtendedCopy, AnErrorOfTheDeviceAbortsTheCopyAndIsTold) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.device.bad_blocks[5] = BlockStatus::ReadError;
  EXPECT_EQ(copy(bench, nexus, {.targets = {target()}, .segments = {segment(0, 100, 10)}}).sense(),
            aborted(SenseCode::ThirdPartyDeviceFailure));
  const Answer told = status_of(bench, nexus, 1);
  ASSERT_TRUE(told.good());
  EXPECT_EQ(load8(told.data, 4), 0x02);  // with errors
}

constexpr std::uint64_t kOtherNaa = 0x3000'0000'0000'0001;

/// A second unit of the same target, with LUN 1.
struct OtherUnit {
  explicit OtherUnit(Bench& bench, const Bench::Options& options = {})
      : ram(*RamDevice::create({.bytes = options.blocks * options.block_bytes,
                                .block_bytes = options.block_bytes,
                                .keeps_protection = options.keeps_protection})),
        device(*ram, Bench::geometry(options)) {
    UnitOptions unit = options.unit;
    unit.lun = Lun{1};
    unit.serial = "SN02";
    unit.naa = kOtherNaa;
    EXPECT_TRUE(bench.target.add_unit(unit, device).has_value());
  }
  std::unique_ptr<RamDevice> ram;
  testing::HeldDevice device;
};

/// LUNs as they are addressed.
constexpr std::uint64_t kOther = std::uint64_t{1} << 48;

Answer on(Bench& bench, std::uint64_t lun, NexusId nexus, const Bytes& cdb, const Bytes& data = {},
          std::size_t room = 0) {
  bench.lun = lun;
  const Answer answer = bench.run(nexus, cdb, data, room);
  bench.lun = 0;
  return answer;
}

/// Of both units the power-on attention is taken.
NexusId open_both(Bench& bench, unsigned name) {
  const NexusId nexus = bench.open(name);
  for (int turn = 0; turn < 2; ++turn) {
    on(bench, 0, nexus, bytes({0, 0, 0, 0, 0, 0}));
    on(bench, kOther, nexus, bytes({0, 0, 0, 0, 0, 0}));
  }
  return nexus;
}

TEST(ExtendedCopy, ReachesOtherUnitsOfTheTarget) {
  Bench bench;
  OtherUnit other{bench, {.unit = {.max_transfer_bytes = 4096}}};
  const NexusId nexus = open_both(bench, 1);
  const Bytes data = pattern(600 * 512, 5);
  const Bytes more = pattern(3 * 512, 9);
  ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 0, 600), data).good());
  ASSERT_TRUE(on(bench, kOther, nexus, cdb10(0x2A, 1500, 3), more).good());
  const List list{
      .targets = {target(), target(kOtherNaa)},
      .segments = {segment(0, 100, 600, 1), segment(1500, 900, 3, 0, 1), segment(1500, 4, 3, 1, 1),
                  segment(0, 700, 1)}
  };
  ASSERT_TRUE(copy(bench, nexus, list).good());
  Bytes copied;
  for (std::uint64_t block = 100; block < 700; block += 8) {  // as much as its limit allows
    const Bytes part = on(bench, kOther, nexus, cdb10(0x28, block, 8), {}, 4096).data;
    copied.insert(copied.end(), part.begin(), part.end());
  }
  EXPECT_EQ(copied, data);
  EXPECT_EQ(blocks(bench, nexus, 900, 3), more);
  EXPECT_EQ(on(bench, kOther, nexus, cdb10(0x28, 4, 3), {}, 1536).data, more);
  EXPECT_EQ(blocks(bench, nexus, 700, 1), Bytes(data.begin(), data.begin() + 512));
  EXPECT_EQ(load32(status_of(bench, nexus, 1).data, 8), (600 + 3 + 3 + 1) * 512 / 1024u);
}

TEST(ExtendedCopy, EachUnitKeepsTuplesOfItsOwn) {
  Bench bench({
      .unit = {.serial = "SN01", .protection = ProtectionType::Type1},
        .keeps_protection = true
  });
  OtherUnit other{bench};
  const NexusId nexus = open_both(bench, 1);
  const Bytes data = pattern(4 * 512, 5);
  ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 9, 4), data).good());
  const List list{
      .targets = {target(), target(kOtherNaa)},
      .segments = {segment(9, 50, 4, 1), segment(50, 300, 4, 0, 1)}
  };
  ASSERT_TRUE(copy(bench, nexus, list).good());
  EXPECT_EQ(blocks(bench, nexus, 300, 4), data);  // and its tuples are right
}

TEST(ExtendedCopy, IsToOtherUnitsAsItsInitiatorIs) {
  Bench bench;
  OtherUnit other{bench};
  const NexusId nexus = open_both(bench, 1);
  const NexusId second = open_both(bench, 2);
  const List there{
      .targets = {target(), target(kOtherNaa)},
        .segments = {segment(0, 100, 4, 1)}
  };
  const Bytes reserve = bytes({0x16, 0, 0, 0, 0, 0});
  ASSERT_TRUE(on(bench, kOther, second, reserve).good());
  EXPECT_EQ(copy(bench, nexus, there).sense(), aborted(SenseCode::ThirdPartyDeviceFailure));
  EXPECT_TRUE(copy(bench, second, there).good());
  EXPECT_EQ(on(bench, kOther, nexus, cdb10(0x2A, 0, 1), pattern(512, 1)).status(),
            Status::ReservationConflict)
      << "a copy takes no reservation away";
}

TEST(ExtendedCopy, RefusesBlocksOfAnotherSizeAndUnitsThatAreGone) {
  Bench bench;
  OtherUnit other{
      bench, {.blocks = 256, .block_bytes = 4096}
  };
  const NexusId nexus = open_both(bench, 1);
  Bytes large = target(kOtherNaa);
  store_number(large, 29, 3, 4096);
  EXPECT_EQ(copy(bench, nexus,
                 {
                     .targets = {target(), large},
                       .segments = {segment(0, 1, 1)}
  })
                .sense(),
            illegal(SenseCode::InvalidFieldInParameterList));
  ASSERT_TRUE(bench.target.remove_unit(Lun{1}, [] {}).has_value());
  bench.run(nexus, bytes({0, 0, 0, 0, 0, 0}));  // LUNs have changed
  EXPECT_EQ(copy(bench, nexus,
                 {
                     .targets = {target(), large},
                       .segments = {segment(0, 1, 1)}
  })
                .sense(),
            aborted(SenseCode::CopyTargetDeviceNotReachable));
}

TEST(ExtendedCopy, BothWaysAtOnceDoNotWaitForEachOther) {
  Bench bench;
  OtherUnit other{bench};
  const NexusId nexus = open_both(bench, 1);
  bench.device.holds = other.device.holds = true;
  const List list{
      .targets = {target(), target(kOtherNaa)},
      .segments = {segment(0, 0, 600, 1), segment(0, 0, 600, 0, 1)}
  };
  List mirrored = list;
  std::swap(mirrored.segments.front(), mirrored.segments.back());
  mirrored.identifier = 2;
  const Exchange& first =
      bench.start(nexus, copy_cdb(list.octets().size()), list.octets(), 0, TaskAttribute::Ordered);
  bench.lun = kOther;
  const Exchange& second = bench.start(nexus, copy_cdb(list.octets().size()), mirrored.octets(), 0,
                                       TaskAttribute::Ordered);
  while (bench.device.release() || other.device.release()) {
  }
  EXPECT_TRUE(first.answer.good());
  EXPECT_TRUE(second.answer.good());
}

TEST(ExtendedCopy, EndsWithAUnitThatGoesAndWithItsOwnAbort) {
  for (const bool goes : {true, false}) {
    Bench bench;
    OtherUnit other{bench};
    const NexusId nexus = open_both(bench, 1);
    other.device.holds = true;
    const List list{
        .targets = {target(), target(kOtherNaa)},
          .segments = {segment(0, 0, 1200, 1)}
    };
    const Exchange& under_way = bench.start(nexus, copy_cdb(list.octets().size()), list.octets(), 0,
                                            TaskAttribute::Simple, 77);
    EXPECT_FALSE(under_way.answer.ended);
    bool is_gone = false;
    if (goes) {
      ASSERT_TRUE(bench.target.remove_unit(Lun{1}, [&] { is_gone = true; }).has_value());
    } else {
      const auto response = bench.manage(nexus, TaskManagement::AbortTask, 77);
      EXPECT_FALSE(response->has_value()) << "the device has a buffer of it";
    }
    while (other.device.release()) {
    }
    EXPECT_TRUE(under_way.answer.ended);
    EXPECT_EQ(is_gone, goes);
    EXPECT_EQ(under_way.answer.completion.has_status, goes);
    if (goes) {
      EXPECT_EQ(under_way.answer.sense(), aborted(SenseCode::ThirdPartyDeviceFailure));
    }
    EXPECT_EQ(bench.unit->tasks(), 0U);
  }
}

TEST(ReceiveCopyResults, TellsOnceHowACopyWent) {  // SPC-4 §6.24.2
  Bench bench;
  const NexusId nexus = bench.open(1);
  const NexusId other = bench.open(2);
  EXPECT_EQ(status_of(bench, nexus, 1).sense(), kInvalidField);
  bench.device.holds = true;
  const List list{
      .targets = {target()},
        .segments = {segment(0, 100, 4), segment(0, 200, 4)}
  };
  const Bytes octets = list.octets();
  Exchange& under_way = bench.start(nexus, copy_cdb(octets.size()), octets);
  EXPECT_EQ(load8(status_of(bench, nexus, 1).data, 4), 0x00);  // in progress
  EXPECT_EQ(copy(bench, nexus, list).sense(), illegal(SenseCode::OperationInProgress));
  EXPECT_EQ(status_of(bench, other, 1).sense(), kInvalidField);
  while (bench.device.release()) {
  }
  EXPECT_TRUE(under_way.answer.good());
  const Answer told = status_of(bench, nexus, 1);
  ASSERT_TRUE(told.good());
  EXPECT_EQ(load32(told.data, 0), 8u);
  EXPECT_EQ(load8(told.data, 4), 0x01);
  EXPECT_EQ(load16(told.data, 5), 2u);
  EXPECT_EQ(load32(told.data, 8), 4u);  // KiB
  EXPECT_EQ(status_of(bench, nexus, 1).sense(), kInvalidField);
}

TEST(ReceiveCopyResults, NothingIsKeptOfACopyThatWantsNone) {  // SPC-4 Table 105
  Bench bench;
  const NexusId nexus = bench.open(1);
  for (const unsigned usage : {2u, 3u}) {
    const List list{.identifier = static_cast<std::uint8_t>(usage == 3 ? 0 : 9),
                    .usage = static_cast<std::uint8_t>(usage),
                    .targets = {target()},
                    .segments = {segment(0, 100, 4)}};
    ASSERT_TRUE(copy(bench, nexus, list).good());
    EXPECT_EQ(status_of(bench, nexus, list.identifier).sense(), kInvalidField);
  }
}

TEST(ReceiveCopyResults, SaysTheLimitsThatInquirySays) {  // SPC-4 §6.24.4, §7.8.17
  Bench bench;
  const NexusId nexus = bench.open(1);
  Bytes cdb = cdb16(0x84, 0, 64);
  cdb[1] = std::byte{0x03};
  const Answer told = bench.run(nexus, cdb, {}, 64);
  ASSERT_TRUE(told.good());
  ASSERT_EQ(told.data.size(), 46u);
  EXPECT_EQ(load32(told.data, 0), 42u);
  EXPECT_EQ(load16(told.data, 8), kMaxCopyTargets);
  EXPECT_EQ(load16(told.data, 10), kMaxCopySegments);
  EXPECT_EQ(load16(told.data, 44), 0x02E4);
  const Answer page = bench.run(nexus, bytes({0x12, 1, 0x8F, 1, 0, 0}), {}, 256);
  ASSERT_TRUE(page.good());
  EXPECT_EQ(load16(page.data, 2) + 4u, page.data.size());
  EXPECT_EQ(load16(page.data, 4), 0x0001);  // supported commands
  EXPECT_EQ(load16(page.data, 9), 0x8301);
  EXPECT_EQ(load8(bench.run(nexus, bytes({0x12, 0, 0, 0, 96, 0}), {}, 96).data, 5) & 0x08, 0x08);
}

}  // namespace
}  // namespace weft::scsi
