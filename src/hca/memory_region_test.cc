#include "hca/memory_region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <vector>

#include "hca/hca.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;

/// Memory of which some pages are absent; records the requests for pages.
class SparseMemory final : public UserMemory {
 public:
  bool fault_in(std::span<std::byte> range, bool for_writing) override {
    asked.push_back(range.size());
    writes += for_writing ? 1 : 0;
    return present;
  }
  bool persist(std::span<std::byte> /*range*/) override { return present; }
  std::vector<std::size_t> asked;
  int writes{};
  bool present{true};
};

[[nodiscard]] std::uint64_t number(const void* address) {
  return std::bit_cast<std::uint64_t>(address);
}

TEST(MemoryTable, BringsInPagesOfOnDemandRegionsOnly) {  // T-ODP-1
  SparseMemory user;
  ProtectionDomain pd;
  MemoryTable table{8, 1, LockPolicy::None, &user};
  std::array<std::byte, 100> memory{};
  const auto usual = AccessFlags{Access::LocalWrite} | Access::RemoteRead;
  MemoryRegion& held = **table.add(pd, 0, memory, usual);
  EXPECT_EQ(table.find(pd, held.lkey, 0, 100, Access::LocalWrite).fault, KeyFault::None);
  EXPECT_TRUE(user.asked.empty());
  MemoryRegion& paged = **table.add(pd, 0, memory, usual | Access::OnDemand);
  EXPECT_EQ(table.find(pd, paged.lkey, 10, 5, Access::LocalWrite).memory.data(), &memory[10]);
  EXPECT_EQ(user.asked, std::vector<std::size_t>{5});
  EXPECT_EQ(user.writes, 1);
  EXPECT_EQ(table.find(pd, paged.rkey, 0, 7, Access::RemoteRead).fault, KeyFault::None);
  EXPECT_EQ(user.writes, 1) << "a READ does not ask for writable pages";
  user.present = false;
  EXPECT_EQ(table.find(pd, paged.rkey, 0, 7, Access::RemoteRead).fault, KeyFault::OutOfRange);
}

TEST(MemoryTable, FindsEveryAddressInTheAddressSpaceRegion) {  // part of T-ODP-4
  SparseMemory user;
  ProtectionDomain pd;
  MemoryTable table{8, 1, LockPolicy::None, &user};
  MemoryRegion& all = **table.add(pd, 0, {}, AccessFlags{Access::LocalWrite} | Access::OnDemand,
                                  Backing::AddressSpace);
  std::array<std::byte, 4> here{};
  EXPECT_EQ(table.find(pd, all.lkey, number(here.data()), 4, {}).memory.data(), here.data());
  EXPECT_EQ(table.find(pd, all.lkey, ~std::uint64_t{0}, 2, {}).fault, KeyFault::OutOfRange);
  EXPECT_EQ(table.find(pd, all.rkey, number(here.data()), 4, Access::RemoteRead).fault,
            KeyFault::MissingAccess);
}

TEST(MemoryTable, ReplacesARegionUnderItsKeyOrLeavesItAlone) {
  ProtectionDomain pd;
  ProtectionDomain other;
  MemoryTable table{8, 1, LockPolicy::None};
  std::array<std::byte, 100> memory{};
  MemoryRegion& region = **table.add(pd, 1'000, memory, Access::LocalWrite);
  const RKey key = region.rkey;
  EXPECT_FALSE(table.replace(region, pd, 0, memory, Access::RemoteWrite)) << "without local write";
  EXPECT_EQ(table.find(pd, region.lkey, 1'000, 100, Access::LocalWrite).fault, KeyFault::None);
  const auto access = AccessFlags{Access::LocalWrite} | Access::RemoteWrite;
  auto replaced = table.replace(region, other, 0, std::span{memory}.first(10), access);
  ASSERT_TRUE(replaced);
  EXPECT_EQ(replaced->now->rkey, key);
  EXPECT_EQ(table.find(other, key, 0, 10, Access::RemoteWrite).fault, KeyFault::None);
  EXPECT_EQ(table.find(other, key, 0, 11, Access::RemoteWrite).fault, KeyFault::OutOfRange);
  EXPECT_EQ(table.find(pd, key, 0, 10, Access::RemoteWrite).fault, KeyFault::OtherPd);
}

TEST(NullRegion, ReadsAsZerosAndDiscardsWhatIsWritten) {
  LoopbackPair pair;
  pair.connect();
  MemoryRegion& nothing = **pair.b().hca.register_null(*pair.b().pd);
  const Sge hole{.address = 0x1234'5678'9ABC, .length = 600, .lkey = nothing.lkey};
  const std::array scatter{hole, pair.b().sge(0, 100)};
  ASSERT_TRUE(pair.b().qp->post_recv({.wr_id = 1, .sges = scatter}));
  std::fill_n(pair.a().memory.begin(), 700, std::byte{7});
  const std::array from{pair.a().sge(0, 700)};
  SendWr wr;
  wr.sges = from;
  ASSERT_TRUE(pair.a().qp->post_send(wr));
  pair.run();
  EXPECT_EQ(pair.b().memory[99], std::byte{7}) << "what follows the hole";
  std::array<Wc, 1> wc{};
  ASSERT_EQ(pair.b().recv_cq->poll(wc), 1U);
  EXPECT_EQ(wc[0].status, WcStatus::Success);
  // In the other direction, zeros leave the null region even after it was written.
  const std::array to{pair.a().sge(0, 600)};
  ASSERT_TRUE(pair.a().qp->post_recv({.wr_id = 2, .sges = to}));
  const std::array gather{hole};
  wr.sges = gather;
  ASSERT_TRUE(pair.b().qp->post_send(wr));
  pair.run();
  EXPECT_EQ(std::ranges::count(std::span{pair.a().memory}.first(600), std::byte{0}), 600);
}

TEST(Hca, PrefetchesOnlyOnDemandRegionsOfThePd) {  // part of T-ODP-5
  SparseMemory user;
  testing::RecordedEvents events;
  HcaConfiguration configuration;
  configuration.user_memory = &user;
  Hca hca{configuration, events};
  ProtectionDomain& pd = **hca.allocate_pd();
  ProtectionDomain& other = **hca.allocate_pd();
  std::array<std::byte, 64> memory{};
  const auto writable = AccessFlags{Access::LocalWrite};
  MemoryRegion& paged = **hca.register_memory(pd, 0, memory, writable | Access::OnDemand);
  MemoryRegion& constant = **hca.register_memory(pd, 0, memory, Access::OnDemand);
  MemoryRegion& held = **hca.register_memory(pd, 0, memory, writable);
  const auto advise = [&](LKey lkey, std::uint32_t length, Prefetch how,
                          const ProtectionDomain& domain) {
    const std::array range{
        Sge{.address = 0, .length = length, .lkey = lkey}
    };
    auto done = hca.prefetch(domain, range, how);
    return done ? std::nullopt : std::optional{done.error().code};
  };
  const Prefetch write{.for_writing = true, .must_succeed = true};
  EXPECT_EQ(advise(paged.lkey, 64, write, pd), std::nullopt);
  EXPECT_EQ(user.writes, 1);
  EXPECT_EQ(advise(paged.lkey, 65, write, pd), ErrorCode::BadAddress);
  EXPECT_EQ(advise(paged.lkey, 64, write, other), ErrorCode::PermissionDenied);
  EXPECT_EQ(advise(constant.lkey, 64, write, pd), ErrorCode::PermissionDenied);
  EXPECT_EQ(advise(held.lkey, 64, write, pd), ErrorCode::InvalidArgument);
  EXPECT_EQ(advise(LKey{0x12345}, 64, write, pd), ErrorCode::NotFound);
  user.present = false;
  EXPECT_EQ(advise(paged.lkey, 64, write, pd), ErrorCode::BadAddress);
  EXPECT_EQ(advise(paged.lkey, 64, {.for_writing = true}, pd), std::nullopt) << "only advice";
  const std::size_t asked = user.asked.size();
  EXPECT_EQ(advise(paged.lkey, 64, {.fault = false, .must_succeed = true}, pd), std::nullopt);
  EXPECT_EQ(user.asked.size(), asked);
}

/// Memory in pages of 64 bytes, absent at first. Counts the pages that an access or advice finds
/// absent: the faults of a device that pages on demand.
class CountedPages final : public UserMemory {
 public:
  static constexpr std::size_t kPageBytes = 64;

  bool fault_in(std::span<std::byte> range, bool /*for_writing*/) override {
    const std::uint64_t first = number(range.data());
    for (std::uint64_t page = first / kPageBytes; page * kPageBytes < first + range.size();
         ++page) {
      faults += present_.insert(page).second ? 1 : 0;
    }
    return true;
  }
  bool persist(std::span<std::byte> /*range*/) override { return true; }
  std::size_t faults{};

 private:
  std::set<std::uint64_t> present_;
};

TEST(Hca, AccessesWhatAdviceBroughtInWithoutAFault) {  // T-ODP-5
  CountedPages user;
  testing::PairOptions options;
  options.user_memory = &user;
  options.region_access = options.region_access | Access::OnDemand;
  LoopbackPair pair{options};
  pair.connect();
  testing::Side& b = pair.b();
  const std::array range{b.sge(0, 1024)};
  ASSERT_TRUE(b.hca.prefetch(*b.pd, range, {.for_writing = true, .must_succeed = true}));
  const std::array own{pair.a().sge(0, 64)};
  ASSERT_TRUE(
      pair.a().hca.prefetch(*pair.a().pd, own, {.for_writing = false, .must_succeed = true}));
  EXPECT_GE(user.faults, 17U);
  user.faults = 0;
  testing::request(pair, {.opcode = WrOpcode::RdmaWrite, .length = 64, .offset = 512});
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(user.faults, 0U) << "the first access after the advice";
  testing::request(pair, {.opcode = WrOpcode::RdmaWrite, .length = 64, .offset = 4096});
  ASSERT_TRUE(pair.run());
  EXPECT_GE(user.faults, 1U) << "and where there was no advice there are";
  const auto completed = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(completed.size(), 2U);
  EXPECT_EQ(completed[0].status, WcStatus::Success);
  EXPECT_EQ(completed[1].status, WcStatus::Success);
}

TEST(Hca, ReregistersBetweenPds) {
  testing::RecordedEvents events;
  Hca hca{{}, events};
  ProtectionDomain& pd = **hca.allocate_pd();
  ProtectionDomain& other = **hca.allocate_pd();
  std::array<std::byte, 64> memory{};
  MemoryRegion* region = *hca.register_memory(pd, 0, memory, Access::LocalWrite);
  const LKey key = region->lkey;
  region = *hca.reregister_memory(*region, other, 0, memory, Access::LocalWrite);
  EXPECT_EQ(region->lkey, key);
  EXPECT_TRUE(hca.deallocate_pd(pd)) << "the region is not in it any more";
  EXPECT_EQ(hca.deallocate_pd(other).error().code, ErrorCode::Busy);
  EXPECT_TRUE(hca.deregister_memory(*region));
  MemoryRegion& nothing = **hca.register_null(other);
  EXPECT_EQ(hca.reregister_memory(nothing, other, 0, memory, {}).error().code,
            ErrorCode::NotSupported);
}

}  // namespace
}  // namespace weft::hca
