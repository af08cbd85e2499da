// Memory that is paged on demand, while another thread changes the mappings of its address space.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "core/odp_umem.h"
#include "core/testing/page_table.h"

namespace weft::core {
namespace {

using testing::PageTable;
using namespace std::chrono_literals;

constexpr std::uint64_t kPage = PageTable::kPage;
constexpr std::uint64_t kStart = 0x7F00'0000'0000;
constexpr std::uint64_t kPages = 8;
constexpr std::uint64_t kEnd = kStart + kPages * kPage;

class UmemThreads : public ::testing::Test {
 protected:
  UmemThreads() { space_.map(kStart, kPages, 0x1'0000'0000); }
  PageTable space_{LockPolicy::Spin};
};

TEST_F(UmemThreads, KeepAllThatAnInvalidationUsesToItsEnd) {
  std::atomic<bool> is_inside{};
  std::atomic<bool> has_ended{};
  auto umem = *get_odp_umem(space_, kStart, kPages * kPage,
                            [&](OdpUmem& of, std::uint64_t first, std::uint64_t last) {
                              is_inside = true;
                              std::this_thread::sleep_for(50ms);  // it is being destroyed
                              EXPECT_EQ(first, kStart);
                              EXPECT_EQ(last, kEnd);
                              EXPECT_EQ(of.start(), kStart);
                              EXPECT_EQ(of.end(), kEnd);
                              EXPECT_EQ(of.mapped_pages(), kPages);
                              has_ended = true;
                            });
  ASSERT_EQ(umem->map_dma_pages(kStart, kPages * kPage, kOdpAccess, umem->sequence()).value(),
            kPages);
  std::thread changer{[&] { space_.invalidate(kStart, kEnd); }};
  while (!is_inside) {
    std::this_thread::yield();
  }
  umem.reset();
  EXPECT_TRUE(has_ended);  // the end of it is a fence
  changer.join();
}

// As a driver's does: it waits for a transfer whose thread asks for pages of other memory.
TEST_F(UmemThreads, MayComeChangeAndGoWhileAnInvalidationWaits) {
  std::atomic<bool> is_inside{};
  std::atomic<bool> is_free{};
  auto umem =
      *get_odp_umem(space_, kStart, kPage,
                    [&](OdpUmem& /*umem*/, std::uint64_t /*first*/, std::uint64_t /*last*/) {
                      is_inside = true;
                      for (int i = 0; i < 10'000 && !is_free; ++i) {
                        std::this_thread::sleep_for(1ms);
                      }
                      EXPECT_TRUE(is_free) << "within 10 s";
                    });
  std::thread changer{[&] { space_.invalidate(kStart, kEnd); }};
  while (!is_inside) {
    std::this_thread::yield();
  }
  auto other = *get_odp_umem(space_, kStart + kPage, kPage, {});
  EXPECT_TRUE(other->map_dma_pages(kStart + kPage, 1, kOdpRead, other->sequence()));
  space_.invalidate(kStart + kPage, kStart + 2 * kPage);
  EXPECT_EQ(other->mapped_pages(), 0U);
  other.reset();
  is_free = true;
  changer.join();
}

TEST_F(UmemThreads, AreWholeWheneverAnInvalidationComesAndHearNoneOnceTheyAreGone) {
  constexpr int kUmems = 2'000;
  std::atomic<bool> stops{};
  std::thread changer{[&] {
    while (!stops) {
      space_.invalidate(kStart, kEnd);
      std::this_thread::yield();
    }
  }};
  std::atomic<std::uint64_t> calls{};
  std::deque<std::atomic<bool>> is_gone(kUmems);
  for (std::atomic<bool>& gone : is_gone) {
    auto umem = *get_odp_umem(space_, kStart, kPages * kPage,
                              [&](OdpUmem& of, std::uint64_t first, std::uint64_t last) {
                                EXPECT_FALSE(gone);
                                EXPECT_EQ(of.start(), first);
                                EXPECT_EQ(of.end(), last);
                                ++calls;
                              });
    const auto mapped = umem->map_dma_pages(kStart, kPage, kOdpRead, umem->sequence());
    EXPECT_TRUE(mapped || mapped.error().code == ErrorCode::TryAgain);
    while (calls == 0) {  // the other thread has begun
      std::this_thread::yield();
    }
    umem.reset();
    gone = true;
  }
  stops = true;
  changer.join();
}

}  // namespace
}  // namespace weft::core
