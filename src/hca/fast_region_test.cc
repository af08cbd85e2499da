#include "hca/fast_region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::post;
using testing::signaled;

constexpr std::uint64_t kIova = 0x7'0000'0100;
constexpr std::uint32_t kPage = 512;
constexpr AccessFlags kAll = AccessFlags{Access::LocalWrite} | Access::RemoteWrite |
                             Access::RemoteRead | Access::RemoteAtomic;

/// A pair whose side b has a fast region of pages that lie apart and in reverse.
class FastRegionTest : public ::testing::Test {
 protected:
  FastRegionTest() {
    pair_.connect();
    region_ = *pair_.b().hca.allocate_fast_region(*pair_.b().pd, 16);
    std::iota(pages_.begin(), pages_.end(), std::uint8_t{});
  }
  ~FastRegionTest() override { pair_.b().hca.deallocate_fast_region(*region_); }

  /// Page `index` of the region in memory: every other page of `pages_`, from the end.
  [[nodiscard]] std::span<std::byte> page(std::size_t index) {
    const std::size_t at = pages_.size() - (2 * index + 1) * kPage;
    return std::as_writable_bytes(std::span{pages_}).subspan(at, kPage);
  }
  void map(std::size_t pages, std::uint64_t iova = kIova) {
    PagedMemory memory;
    for (std::size_t i = 0; i < pages; ++i) {
      memory.add(page(i));
    }
    pair_.b().hca.map(*region_, iova, std::move(memory));
  }
  [[nodiscard]] RKey key(std::uint8_t low = 7) const { return RKey{region_->key() | low}; }
  /// Posts a REG_MR to b's QP and says how it ended.
  [[nodiscard]] WcStatus enroll(RKey rkey, AccessFlags access = kAll) {
    SendWr wr = signaled(WrOpcode::RegisterMemory, {}, 50);
    wr.registers = true;
    wr.rkey = rkey;
    wr.swap = access.bits();
    return local(wr);
  }
  [[nodiscard]] WcStatus invalidate(RKey rkey) {
    SendWr wr = signaled(WrOpcode::LocalInvalidate, {}, 51);
    wr.rkey = rkey;
    return local(wr);
  }
  [[nodiscard]] WcStatus local(const SendWr& wr) {
    post(*pair_.b().qp, wr);
    EXPECT_TRUE(pair_.run());
    const std::vector<Wc> done = pair_.poll(*pair_.b().send_cq);
    return done.size() == 1 ? done.front().status : WcStatus::GeneralError;
  }
  /// A one-sided request of a's for the region.
  [[nodiscard]] WcStatus request(WrOpcode opcode, std::uint64_t offset, std::uint32_t length) {
    const std::array sges{pair_.a().sge(0, length)};
    SendWr wr = signaled(opcode, sges);
    wr.remote_address = kIova + offset;
    wr.rkey = key();
    post(*pair_.a().qp, wr);
    EXPECT_TRUE(pair_.run());
    const std::vector<Wc> done = pair_.poll(*pair_.a().send_cq);
    return done.size() == 1 ? done.front().status : WcStatus::GeneralError;
  }
  /// The region's bytes, one after the other.
  [[nodiscard]] std::vector<std::byte> shown(std::size_t pages) {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < pages; ++i) {
      const auto piece = page(i);
      all.insert(all.end(), piece.begin(), piece.end());
    }
    return all;
  }

  LoopbackPair pair_{{.mtu = verbs::Mtu::Mtu1024}};
  FastRegion* region_{};
  std::vector<std::uint8_t> pages_ = std::vector<std::uint8_t>(33 * kPage);
};

TEST(PagedMemory, JoinsNeighboursAndFindsBytesAcrossPieces) {
  std::vector<std::byte> bytes(100);
  const std::span all{bytes};
  PagedMemory memory;
  memory.add(all.subspan(0, 10));
  memory.add(all.subspan(10, 10));
  memory.add({});
  memory.add(all.subspan(50, 5));
  memory.add(all.subspan(30, 20));
  EXPECT_EQ(memory.piece_count(), 3U);
  EXPECT_EQ(memory.length(), 45U);
  EXPECT_EQ(memory.first_of(19, 9).size(), 1U);
  EXPECT_EQ(memory.first_of(20, 3).data(), &bytes[50]);
  std::vector<std::size_t> sizes;
  memory.visit(5, 35, [&](std::span<std::byte> piece) { sizes.push_back(piece.size()); });
  EXPECT_EQ(sizes, (std::vector<std::size_t>{15, 5, 15}));
}

// Part of T-MR-2: the engine's half; core/engine has the mapping from a list.
TEST_F(FastRegionTest, TakesAWriteUpToItsLastByteAndNotAByteMore) {
  map(8);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  std::ranges::fill(pair_.a().memory, std::byte{0xEE});
  const std::vector<std::uint8_t> before = pages_;
  ASSERT_EQ(request(WrOpcode::RdmaWrite, 0, 8 * kPage), WcStatus::Success);
  EXPECT_EQ(shown(8), std::vector<std::byte>(8 * kPage, std::byte{0xEE}));
  std::size_t changed = 0;
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    changed += pages_[i] != before[i] ? 1 : 0;
  }
  EXPECT_LE(changed, 8U * kPage);  // nothing between the pages
  EXPECT_TRUE(
      std::ranges::equal(std::span{pages_}.first(16 * kPage), std::span{before}.first(16 * kPage)));
  const std::vector<std::uint8_t> after = pages_;
  EXPECT_EQ(request(WrOpcode::RdmaWrite, 8 * kPage - 4, 5), WcStatus::RemoteAccessError);
  EXPECT_EQ(pages_, after);
}

TEST_F(FastRegionTest, IsReadInTheOrderOfItsPages) {
  map(10);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  ASSERT_EQ(request(WrOpcode::RdmaRead, 100, 3'000), WcStatus::Success);
  const std::vector<std::byte> all = shown(10);
  EXPECT_TRUE(std::ranges::equal(std::span{pair_.a().memory}.first(3'000),
                                 std::span{all}.subspan(100, 3'000)));
}

TEST_F(FastRegionTest, IsWhereLocalRequestsGatherAndReceivesScatter) {
  map(6);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  const LKey lkey{key().value()};
  const std::vector<std::byte> all = shown(6);
  // From b's region to a.
  testing::receive(pair_.a(), 3'000);
  const std::array from{
      Sge{.address = kIova + 10, .length = 2'000, .lkey = lkey}
  };
  post(*pair_.b().qp, signaled(WrOpcode::Send, from));
  ASSERT_TRUE(pair_.run());
  EXPECT_EQ(pair_.poll(*pair_.b().send_cq).front().status, WcStatus::Success);
  EXPECT_TRUE(std::ranges::equal(std::span{pair_.a().memory}.subspan(0x2000, 2'000),
                                 std::span{all}.subspan(10, 2'000)));
  // From a into b's region.
  const std::array into{
      Sge{.address = kIova + kPage - 3, .length = 1'500, .lkey = lkey}
  };
  ASSERT_TRUE(pair_.b().qp->post_recv({.wr_id = 9, .sges = into}));
  std::ranges::fill(pair_.a().memory, std::byte{0x77});
  const std::array sges{pair_.a().sge(0, 1'500)};
  post(*pair_.a().qp, signaled(WrOpcode::Send, sges));
  ASSERT_TRUE(pair_.run());
  const std::vector<std::byte> now = shown(6);
  EXPECT_EQ(std::ranges::count(now, std::byte{0x77}) - std::ranges::count(all, std::byte{0x77}),
            1'500 - std::ranges::count(std::span{all}.subspan(kPage - 3, 1'500), std::byte{0x77}));
}

TEST_F(FastRegionTest, IsNotRegisteredAgainBeforeItIsInvalidated) {
  map(2);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  EXPECT_EQ(enroll(key(8)), WcStatus::MemoryWindowBindError);  // it is registered; b's QP is in ERR
}

TEST_F(FastRegionTest, IsNotFoundOnceInvalidatedNorByItsOldKey) {
  map(2);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  ASSERT_EQ(request(WrOpcode::RdmaWrite, 0, 8), WcStatus::Success);
  ASSERT_EQ(invalidate(key()), WcStatus::Success);
  map(2);
  ASSERT_EQ(enroll(key(8)), WcStatus::Success);
  EXPECT_EQ(request(WrOpcode::RdmaWrite, 0, 8), WcStatus::RemoteAccessError);  // by the old key
}

// Part of T-MR-3.
TEST_F(FastRegionTest, FailsForThePeerAfterLocalInvalidate) {
  map(2);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  ASSERT_EQ(invalidate(key()), WcStatus::Success);
  EXPECT_EQ(request(WrOpcode::RdmaRead, 0, 8), WcStatus::RemoteAccessError);
}

TEST_F(FastRegionTest, IsInvalidatedByThePeersSend) {
  map(2);
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  testing::receive(pair_.b(), 64);
  SendWr wr = signaled(WrOpcode::SendWithInvalidate, {});
  wr.rkey = key();
  post(*pair_.a().qp, wr);
  ASSERT_TRUE(pair_.run());
  EXPECT_EQ(pair_.poll(*pair_.b().recv_cq).front().invalidated_rkey, key());
  static_cast<void>(pair_.poll(*pair_.a().send_cq));
  EXPECT_EQ(request(WrOpcode::RdmaWrite, 0, 8), WcStatus::RemoteAccessError);
}

TEST_F(FastRegionTest, IsRegisteredManyTimesWithoutKeepingWhatIsOver) {
  for (unsigned round = 0; round < 100; ++round) {
    map(3);
    ASSERT_EQ(enroll(key(static_cast<std::uint8_t>(round))), WcStatus::Success) << round;
    ASSERT_EQ(invalidate(key(static_cast<std::uint8_t>(round))), WcStatus::Success) << round;
  }
}

TEST_F(FastRegionTest, RunsInTheOrderOfTheSendQueue) {
  map(1);
  SendWr enrolls = signaled(WrOpcode::RegisterMemory, {}, 1);
  enrolls.registers = true;
  enrolls.rkey = key();
  enrolls.swap = kAll.bits();
  const std::array sges{
      Sge{.address = kIova, .length = 8, .lkey = LKey{key().value()}}
  };
  SendWr writes = signaled(WrOpcode::RdmaWrite, sges, 2);
  writes.remote_address = pair_.a().address();
  writes.rkey = pair_.a().region->rkey;
  SendWr ends = signaled(WrOpcode::LocalInvalidate, {}, 3);
  ends.rkey = key();
  const std::array all{enrolls, writes, ends};
  ASSERT_TRUE(pair_.b().qp->post_send(all));
  ASSERT_TRUE(pair_.run());
  const std::vector<Wc> done = pair_.poll(*pair_.b().send_cq);
  ASSERT_EQ(done.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(done[i].status, WcStatus::Success) << i;
    EXPECT_EQ(done[i].wr_id, i + 1);
  }
  EXPECT_EQ(done[0].opcode, WcOpcode::RegisterMemory);
}

// R-RVT-7: each as it is refused. The QP is in error after each, so each has its own pair.
struct Refusal {
  const char* what;
  bool maps{true};
  std::uint32_t key_change{};
  AccessFlags access{kAll};
};
class FastRegionRefusal : public FastRegionTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(FastRegionRefusal, EndsInAnErrorAndShowsNothing) {
  if (GetParam().maps) {
    map(1);
  }
  EXPECT_EQ(enroll(RKey{key().value() ^ GetParam().key_change}, GetParam().access),
            WcStatus::MemoryWindowBindError)
      << GetParam().what;
  EXPECT_NE(request(WrOpcode::RdmaWrite, 0, 8), WcStatus::Success);
}
INSTANTIATE_TEST_SUITE_P(
    All, FastRegionRefusal,
    ::testing::Values(Refusal{.what = "nothing is mapped", .maps = false},
                      Refusal{.what = "another region's key", .key_change = 1U << 8},
                      Refusal{.what = "a key far outside", .key_change = 1U << 31},
                      Refusal{.what = "remote without local write", .access = Access::RemoteWrite},
                      Refusal{.what = "windows", .access = kAll | Access::MemoryWindowBind}));

TEST_F(FastRegionTest, OfAnotherPdIsNotTheQpsToRegister) {
  ProtectionDomain* const other = *pair_.b().hca.allocate_pd();
  FastRegion* const theirs = *pair_.b().hca.allocate_fast_region(*other, 1);
  PagedMemory memory;
  memory.add(page(0));
  pair_.b().hca.map(*theirs, kIova, std::move(memory));
  EXPECT_FALSE(pair_.b().hca.deallocate_pd(*other));
  EXPECT_EQ(enroll(RKey{theirs->key()}), WcStatus::MemoryWindowBindError);
  pair_.b().hca.deallocate_fast_region(*theirs);
  EXPECT_TRUE(pair_.b().hca.deallocate_pd(*other));
}

TEST_F(FastRegionTest, IsNotForPrograms) {
  SendWr wr = signaled(WrOpcode::RegisterMemory, {});
  wr.rkey = key();
  EXPECT_FALSE(pair_.b().qp->post_send(wr));
}

TEST_F(FastRegionTest, GathersMorePiecesThanAGatherHolds) {
  std::vector<std::uint8_t> bytes(400);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{});
  PagedMemory memory;
  std::vector<std::byte> expected;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 2) {  // 199 pieces of one byte
    memory.add(std::as_writable_bytes(std::span{bytes}).subspan(i, 1));
    expected.push_back(static_cast<std::byte>(bytes[i]));
  }
  pair_.b().hca.map(*region_, kIova, std::move(memory));
  ASSERT_EQ(enroll(key()), WcStatus::Success);
  ASSERT_EQ(request(WrOpcode::RdmaRead, 0, 199), WcStatus::Success);
  EXPECT_TRUE(std::ranges::equal(std::span{pair_.a().memory}.first(199), expected));
  testing::receive(pair_.a(), 400);
  const std::array from{
      Sge{.address = kIova, .length = 199, .lkey = LKey{key().value()}}
  };
  post(*pair_.b().qp, signaled(WrOpcode::Send, from));
  ASSERT_TRUE(pair_.run());
  EXPECT_TRUE(std::ranges::equal(std::span{pair_.a().memory}.subspan(0x2000, 199), expected));
}

}  // namespace
}  // namespace weft::hca
