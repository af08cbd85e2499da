// RDMA contexts whose data has protection information.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/rdma_rw.h"
#include "core/testing/rdma_rw_fixture.h"
#include "wire/protection_tuple.h"

namespace weft::core {
namespace {

using testing::posted_requests;
using testing::PostedRequests;
using testing::RdmaRwTest;
using testing::ScatteredMemory;
using wire::ProtectionTuple;

constexpr std::uint32_t kPage = ScatteredMemory::kPage;
constexpr std::uint32_t kSector = 512;
constexpr std::uint32_t kTuple = wire::kSizeOf<ProtectionTuple>;
constexpr std::uint32_t kPages = 5;
constexpr std::uint32_t kSectors = kPages * kPage / kSector;
constexpr T10DifDomain kDif{
    .application_tag = 0x1234, .reference_tag = 0x100, .remaps_reference_tag = true};

struct Mode {
  const char* name;
  bool in_memory;
  bool on_wire;
};
constexpr std::array kModes{
    Mode{"insert", false, true },
    Mode{"strip",  true,  false},
    Mode{"pass",   true,  true },
};

class SignatureRdmaRw : public RdmaRwTest {
 protected:
  SignatureRdmaRw()
      : RdmaRwTest({.depth = 16, .max_rdma_contexts = 2, .flags = QpCreateFlag::IntegrityEnabled},
                   {.operations = testing::counting_operations}) {
    data_.fill(9);
  }

  [[nodiscard]] static SignatureAttributes attributes_of(const Mode& mode) {
    SignatureAttributes attributes{.check_mask = 0xFF};
    attributes.memory = {.type = mode.in_memory ? SignatureType::T10Dif : SignatureType::None,
                         .dif = kDif};
    attributes.wire = {.type = mode.on_wire ? SignatureType::T10Dif : SignatureType::None,
                       .dif = kDif};
    return attributes;
  }
  [[nodiscard]] RdmaProtection protection_of(const Mode& mode) const {
    return {.list = mode.in_memory ? tuples_.list() : std::span<const ScatterEntry>{},
            .attributes = attributes_of(mode)};
  }
  /// The right tuples of `content`.
  [[nodiscard]] static std::vector<std::byte> tuples_of(ByteSpan content) {
    std::vector<std::byte> tuples;
    for (std::uint32_t i = 0; i < kSectors; ++i) {
      const auto tuple = wire::pack(
          ProtectionTuple{.guard = wire::crc_t10_dif(content.subspan(i * kSector, kSector)),
                          .application_tag = kDif.application_tag,
                          .reference_tag = kDif.reference_tag + i});
      tuples.insert(tuples.end(), tuple.begin(), tuple.end());
    }
    return tuples;
  }
  [[nodiscard]] static std::vector<std::byte> wire_form(const Mode& mode, ByteSpan content,
                                                        ByteSpan tuples) {
    std::vector<std::byte> all;
    for (std::uint32_t i = 0; i < kSectors; ++i) {
      const ByteSpan sector = content.subspan(i * kSector, kSector);
      const ByteSpan tuple = tuples.subspan(i * kTuple, mode.on_wire ? kTuple : 0);
      all.insert(all.end(), sector.begin(), sector.end());
      all.insert(all.end(), tuple.begin(), tuple.end());
    }
    return all;
  }
  static void scatter(const ScatteredMemory& to, ByteSpan from) {
    for (const ScatterEntry& entry : to.list()) {
      copy_bytes(ScatteredMemory::bytes_of(entry), from.first(entry.length));
      from = from.subspan(entry.length);
    }
  }
  /// A transfer of all pages that succeeds; what its checks say.
  [[nodiscard]] SignatureStatus moved(const Mode& mode, DmaDirection direction) {
    RdmaContext context;
    const auto made = context.init_signature(*pair_.a.qp, PortNumber{1},
                                             transfer_of(data_, direction), protection_of(mode));
    EXPECT_TRUE(made) << made.error().reason;
    const PostedRequests before = posted_requests;
    EXPECT_EQ(run(context), verbs::WcStatus::Success);
    EXPECT_EQ(posted_requests.all - before.all, made.value_or(0));
    const auto status = check_mr_status(*context.signature_region());
    context.destroy();
    EXPECT_EQ(pair_.a.qp->signature_mrs.taken(), 0U);
    return status.value_or(SignatureStatus{.failed = true});
  }

  ScatteredMemory data_{kPages, kPage, kPage};
  ScatteredMemory tuples_{2, kSectors* kTuple / 2, kPage};
};

// R-RW-3
TEST_F(SignatureRdmaRw, InsertsStripsAndPassesProtectionInformationBothWays) {
  std::uint32_t transfers = 0;
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    const PostedRequests before = posted_requests;
    const std::vector<std::byte> content = data_.gathered();
    const std::vector<std::byte> tuples = tuples_of(content);
    const std::vector<std::byte> wire = wire_form(mode, content, tuples);
    scatter(tuples_, tuples);
    std::ranges::fill(remote_, std::byte{0xEE});
    EXPECT_FALSE(moved(mode, DmaDirection::ToDevice).failed);
    EXPECT_TRUE(std::ranges::equal(wire, std::span{remote_}.first(wire.size())));
    EXPECT_EQ(remote_[wire.size()], std::byte{0xEE});

    data_.fill(77);  // to be read back
    scatter(tuples_, std::vector<std::byte>(kSectors * kTuple));
    EXPECT_FALSE(moved(mode, DmaDirection::FromDevice).failed);
    EXPECT_EQ(data_.gathered(), content);
    if (mode.in_memory) {
      EXPECT_EQ(tuples_.gathered(), tuples);
    }
    EXPECT_EQ(posted_requests.registrations - before.registrations, 2U);
    EXPECT_EQ(posted_requests.invalidations - before.invalidations, transfers == 0 ? 1U : 2U);
    transfers += 2;
  }
}

// T-RW-6
TEST_F(SignatureRdmaRw, NamesTheSectorOfADamagedGuardOfATransferThatSucceeds) {
  constexpr std::uint32_t kBad = 17;
  for (const Mode& mode : kModes) {
    for (const DmaDirection direction : {DmaDirection::ToDevice, DmaDirection::FromDevice}) {
      const bool has_tuples = direction == DmaDirection::ToDevice ? mode.in_memory : mode.on_wire;
      if (!has_tuples) {
        continue;  // they are made, not checked
      }
      SCOPED_TRACE(mode.name);
      const std::vector<std::byte> content = data_.gathered();
      std::vector<std::byte> tuples = tuples_of(content);
      tuples[kBad * kTuple] ^= std::byte{1};
      scatter(tuples_, tuples);
      std::ranges::copy(wire_form(mode, content, tuples), remote_.begin());
      const SignatureStatus status = moved(mode, direction);
      ASSERT_TRUE(status.failed);
      EXPECT_EQ(status.error, SignatureError::BadGuard);
      EXPECT_EQ(status.offset / (kSector + kTuple), kBad);
      EXPECT_EQ(status.expected ^ status.actual, 0x0100U);
      EXPECT_EQ(data_.gathered(), content);
      scatter(tuples_, tuples_of(content));
      std::ranges::copy(wire_form(mode, content, tuples_of(content)), remote_.begin());
      EXPECT_FALSE(moved(mode, direction).failed);  // the next one is no worse for it
    }
  }
}

TEST_F(SignatureRdmaRw, RefusesListsThatARegionDoesNotTakeAndGivesItBack) {
  const RdmaTransfer transfer = transfer_of(data_, DmaDirection::ToDevice);
  RdmaContext context;
  const auto code_of = [&](const RdmaTransfer& of, const RdmaProtection& protection) {
    const auto made = context.init_signature(*pair_.a.qp, PortNumber{1}, of, protection);
    EXPECT_EQ(pair_.a.qp->signature_mrs.taken(), 0U);
    return made ? ErrorCode{} : made.error().code;
  };
  const ScatteredMemory many{257, 8, 16};
  EXPECT_EQ(code_of(transfer_of(many, DmaDirection::ToDevice), protection_of(kModes[0])),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(transfer, {.list = many.list(), .attributes = attributes_of(kModes[2])}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(transfer, {.list = {}, .attributes = attributes_of(kModes[2])}),
            ErrorCode::InvalidArgument);
  const ScatteredMemory odd{1, kSector + 1, kPage};
  EXPECT_EQ(code_of(transfer_of(odd, DmaDirection::ToDevice), protection_of(kModes[0])),
            ErrorCode::InvalidArgument);
}

TEST_F(SignatureRdmaRw, WithoutARegionLeftIsToTryAgain) {
  const RdmaTransfer transfer = transfer_of(data_, DmaDirection::ToDevice);
  std::array<RdmaContext, 3> contexts;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(contexts.at(i).init_signature(*pair_.a.qp, PortNumber{1}, transfer,
                                              protection_of(kModes[0])));
  }
  EXPECT_EQ(contexts[2]
                .init_signature(*pair_.a.qp, PortNumber{1}, transfer, protection_of(kModes[0]))
                .error()
                .code,
            ErrorCode::TryAgain);
  contexts[0].destroy();
  EXPECT_TRUE(
      contexts[2].init_signature(*pair_.a.qp, PortNumber{1}, transfer, protection_of(kModes[0])));
  EXPECT_EQ(run(contexts[1]), verbs::WcStatus::Success);
  EXPECT_EQ(run(contexts[2]), verbs::WcStatus::Success);
  contexts[1].destroy();
  contexts[2].destroy();
}

}  // namespace
}  // namespace weft::core
