#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "core/mr.h"
#include "core/testing/engine_pair.h"
#include "wire/protection_tuple.h"

namespace weft::core::engine {
namespace {

using core::testing::CountedRequest;
using core::testing::EnginePair;
using wire::ProtectionTuple;

constexpr std::uint32_t kSector = 512;
constexpr std::uint32_t kTuple = wire::kSizeOf<ProtectionTuple>;
constexpr std::uint32_t kWire = 4 * (kSector + kTuple);
constexpr std::uint32_t kPage = 4'096;
constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                    verbs::Access::RemoteWrite | verbs::Access::RemoteRead |
                                    verbs::Access::RemoteAtomic;

/// b shows four sectors, which lie in two elements, to a through an integrity region's R_Key: the
/// way of an initiator, whose target does the transfers.
class EngineIntegrity : public ::testing::Test {
 protected:
  EngineIntegrity() : region_(*allocate_mr_integrity(*pair_.b.pd, 2, 1)) {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i] = static_cast<std::byte>((i * 17 + i / 300) & 0xFF);
    }
  }
  ~EngineIntegrity() override { EXPECT_TRUE(deregister_mr(*region_)); }

  [[nodiscard]] static ScatterEntry entry(std::span<std::byte> memory) {
    return {.address = std::bit_cast<std::uint64_t>(memory.data()),
            .length = static_cast<std::uint32_t>(memory.size())};
  }
  [[nodiscard]] Result<void> map(bool with_tuples) {
    const std::array data{entry(std::span{data_}.first(700)), entry(std::span{data_}.subspan(700))};
    const std::array tuples{entry(tuples_)};
    return map_mr_sg_pi(*region_, {.list = data},
                        {.list = with_tuples ? tuples : std::span<const ScatterEntry>{}}, kPage);
  }
  void insert_on_wire() {
    *region_->signature = {.check_mask = 0xFF};
    region_->signature->wire.type = SignatureType::T10Dif;
    region_->signature->wire.dif.application_tag = 7;
  }
  [[nodiscard]] SendWr enrollment() {
    update_fast_registration_key(*region_,
                                 static_cast<std::uint8_t>(next_key(region_->rkey.value())));
    SendWr wr;
    wr.opcode = verbs::WrOpcode::RegisterMemoryIntegrity;
    wr.mr = region_;
    wr.key = region_->rkey.value();
    wr.access = kAll;
    return wr;
  }
  [[nodiscard]] verbs::WcStatus run(core::Qp& qp, SendWr wr) {
    CountedRequest request;
    wr.wr_id = wr_id_of(request.handler);
    wr.flags = verbs::Send::Signaled;
    const auto posted = post_send(qp, wr);
    EXPECT_TRUE(posted) << posted.error().reason;
    pair_.environment.wait_until([&] { return request.calls != 0; },
                                 pair_.environment.now() + Duration::seconds(30));
    return request.status;
  }
  [[nodiscard]] verbs::WcStatus transfer(verbs::WrOpcode opcode, std::uint32_t length,
                                         std::uint64_t from = 0) {
    const std::array sges{pair_.a.sge(0, length)};
    SendWr wr;
    wr.opcode = opcode;
    wr.sges = sges;
    wr.remote_address = region_->iova + from;
    wr.rkey = region_->rkey;
    return run(*pair_.a.qp, wr);
  }
  /// Sector `index` as a has received it.
  [[nodiscard]] std::span<std::byte> received(std::uint32_t index) {
    return std::span{pair_.a.memory}.subspan(index * (kSector + kTuple), kSector + kTuple);
  }

  EnginePair pair_;
  std::vector<std::byte> data_ = std::vector<std::byte>(4 * kSector);
  std::vector<std::byte> tuples_ = std::vector<std::byte>(4 * kTuple);
  core::Mr* region_;
};

// R-MR-2, R-MR-4
TEST_F(EngineIntegrity, IsReadByAPeerWithTheTuplesThatItMakes) {
  insert_on_wire();
  ASSERT_TRUE(map(false));
  EXPECT_EQ(region_->length, kWire);
  ASSERT_EQ(run(*pair_.b.qp, enrollment()), verbs::WcStatus::Success);
  ASSERT_EQ(transfer(verbs::WrOpcode::RdmaRead, kWire), verbs::WcStatus::Success);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto sector = std::span{data_}.subspan(i * kSector, kSector);
    EXPECT_TRUE(std::ranges::equal(received(i).first(kSector), sector));
    EXPECT_EQ(*wire::parse<ProtectionTuple>(received(i).subspan(kSector)),
              (ProtectionTuple{.guard = wire::crc_t10_dif(sector), .application_tag = 7}));
  }
  // From the middle of a tuple on.
  const std::vector<std::byte> whole = pair_.a.memory;
  ASSERT_EQ(transfer(verbs::WrOpcode::RdmaRead, 100, kSector + 3), verbs::WcStatus::Success);
  EXPECT_TRUE(std::ranges::equal(std::span{pair_.a.memory}.first(100),
                                 std::span{whole}.subspan(kSector + 3, 100)));
  EXPECT_EQ(transfer(verbs::WrOpcode::RdmaRead, 2, kWire - 1), verbs::WcStatus::RemoteAccessError);
}

// R-MR-7
TEST_F(EngineIntegrity, TakesAPeersWriteWhichItChecks) {
  insert_on_wire();
  ASSERT_TRUE(map(false));
  ASSERT_EQ(run(*pair_.b.qp, enrollment()), verbs::WcStatus::Success);
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::ranges::fill(received(i), static_cast<std::byte>(i + 1));
    const auto tuple =
        wire::pack(ProtectionTuple{.guard = wire::crc_t10_dif(received(i).first(kSector)),
                                   .application_tag = static_cast<std::uint16_t>(i == 2 ? 9 : 7)});
    copy_bytes(received(i).subspan(kSector), tuple);
  }
  ASSERT_EQ(transfer(verbs::WrOpcode::RdmaWrite, kWire), verbs::WcStatus::Success);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_THAT(std::span{data_}.subspan(i * kSector, kSector),
                ::testing::Each(static_cast<std::byte>(i + 1)));
  }
  const SignatureStatus status = *check_mr_status(*region_);
  EXPECT_TRUE(status.failed);
  EXPECT_EQ(status.error, SignatureError::BadApplicationTag);
  EXPECT_EQ(status.offset, 2 * (kSector + kTuple));
  EXPECT_EQ(status.expected, 7U);
  EXPECT_EQ(status.actual, 9U);
  EXPECT_EQ(status.key, region_->lkey.value());
  EXPECT_FALSE(check_mr_status(*region_)->failed);
}

TEST_F(EngineIntegrity, IsSignedAsItsAttributesAreWhenItIsRegistered) {
  ASSERT_TRUE(map(true));  // without attributes yet
  EXPECT_EQ(region_->signature->metadata_length, 4 * kTuple);
  region_->signature->memory.type = SignatureType::T10Dif;
  ASSERT_EQ(run(*pair_.b.qp, enrollment()), verbs::WcStatus::Success);
  EXPECT_EQ(region_->length, 4 * kSector);
  std::ranges::fill(pair_.a.memory, std::byte{5});
  ASSERT_EQ(transfer(verbs::WrOpcode::RdmaWrite, 4 * kSector), verbs::WcStatus::Success);
  EXPECT_EQ(wire::parse<ProtectionTuple>(tuples_)->guard,
            wire::crc_t10_dif(std::vector<std::byte>(kSector, std::byte{5})));
}

TEST_F(EngineIntegrity, TakesNoAtomics) {
  insert_on_wire();
  ASSERT_TRUE(map(false));
  ASSERT_EQ(run(*pair_.b.qp, enrollment()), verbs::WcStatus::Success);
  const std::vector<std::byte> before = data_;
  const std::uint64_t aligned = (8 - region_->iova % 8) % 8;
  EXPECT_EQ(transfer(verbs::WrOpcode::FetchAdd, 8, aligned), verbs::WcStatus::RemoteAccessError);
  EXPECT_EQ(data_, before);
}

TEST_F(EngineIntegrity, IsMappedWholeOrNotAtAllAndRegisteredOnlyWhenItIs) {
  const auto refused = [&](const SendWr& wr) {
    const auto posted = post_send(*pair_.b.qp, wr);
    return posted ? ErrorCode{} : posted.error().code;
  };
  insert_on_wire();
  EXPECT_EQ(refused(enrollment()), ErrorCode::InvalidArgument);  // nothing is mapped
  const std::array three{entry(data_), entry(data_), entry(data_)};
  EXPECT_EQ(map_mr_sg_pi(*region_, {.list = three}, {}, kPage).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(map_mr_sg_pi(*region_, {}, {}, kPage).error().code, ErrorCode::InvalidArgument);
  std::uint32_t offset = 4 * kSector;
  EXPECT_EQ(
      map_mr_sg_pi(*region_, {.list = std::span{three}.first(1), .offset = &offset}, {}, kPage)
          .error()
          .code,
      ErrorCode::InvalidArgument);
  EXPECT_EQ(map(true).error().code, ErrorCode::InvalidArgument);  // tuples that are not asked for
  EXPECT_EQ(refused(enrollment()), ErrorCode::InvalidArgument);
  core::Mr* const plain = *allocate_mr(*pair_.b.pd, MrType::MemoryRegistration, 1);
  SendWr wr = enrollment();
  wr.mr = plain;
  EXPECT_EQ(refused(wr), ErrorCode::InvalidArgument);
  EXPECT_TRUE(deregister_mr(*plain));
}

}  // namespace
}  // namespace weft::core::engine
