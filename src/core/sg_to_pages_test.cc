#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/mr.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAreArray;
using testing::FakeDriver;

constexpr std::uint32_t kPage = 0x1000;

struct Case {
  const char* what;
  std::vector<ScatterEntry> list;
  std::uint32_t offset;
  std::size_t pages_taken;  // how many set_page takes
  std::uint32_t count;      // expected, as what follows
  std::uint32_t offset_after;
  std::uint64_t iova;
  std::uint64_t length;
  std::vector<std::uint64_t> pages;
};

class SgToPages : public ::testing::Test {
 protected:
  SgToPages() {
    if (!driver_.register_as("X")) {
      ADD_FAILURE() << "the device is not registered";
    }
    pd_ = *allocate_pd(driver_.device());
  }
  ~SgToPages() override {
    EXPECT_TRUE(deallocate_pd(*pd_));
    registry_.unregister_device(driver_.device());
  }
  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  FakeDriver driver_{registry_};
  Pd* pd_{};
};

[[nodiscard]] std::vector<Case> cases() {
  return {
      {"two aligned pages apart",
       {{0x10000, 0x1000}, {0x30000, 0x1000}},
       0,     9,
       2, 0,
       0x10000, 0x2000,
       {0x10000, 0x30000}         },
      {"a gap in the middle",
       {{0x10000, 0x1000}, {0x20100, 0x1000}, {0x30000, 0x1000}},
       0,     9,
       1, 0,
       0x10000, 0x1000,
       {0x10000}                  },
      {"an element that ends early",
       {{0x10000, 0x800}, {0x20000, 0x1000}},
       0,     9,
       1, 0,
       0x10000, 0x800,
       {0x10000}                  },
      {"a short last",
       {{0x10000, 0x1000}, {0x20000, 0x10}},
       0,     9,
       2, 0,
       0x10000, 0x1010,
       {0x10000, 0x20000}         },
      {"a first with an offset",
       {{0x10000, 0x1000}, {0x20000, 0x1000}},
       0x234, 9,
       2, 0,
       0x10234, 0x1DCC,
       {0x10000, 0x20000}         },
      {"a first that begins within a page",
       {{0x10FF0, 0x10}, {0x20000, 0x1000}},
       0,     9,
       2, 0,
       0x10FF0, 0x1010,
       {0x10000, 0x20000}         },
      {"contiguous but unaligned",
       {{0x10000, 0x100}, {0x10100, 0xF00}, {0x11000, 0x20}},
       0,     9,
       3, 0,
       0x10000, 0x1020,
       {0x10000, 0x11000}         },
      {"contiguous over a page's end",
       {{0x10000, 0x800}, {0x10800, 0x1000}},
       0,     9,
       2, 0,
       0x10000, 0x1800,
       {0x10000, 0x11000}         },
      {"more pages than there is room for",
       {{0x10000, 0x1000}, {0x20000, 0x3000}, {0x40000, 0x1000}},
       0,     3,
       1, 0x2000,
       0x10000, 0x3000,
       {0x10000, 0x20000, 0x21000}},
      {"a first longer than the room",
       {{0x10000, 0x4000}},
       0x10,  2,
       0, 0x2000,
       0x10010, 0x1FF0,
       {0x10000, 0x11000}         },
  };
}

// Part of T-MR-1: lists of pages; those with gaps are engine/engine_memory_test.cc's.
TEST_F(SgToPages, TakesTheLongestPrefixAndSaysWhereItEnds) {
  for (const Case& one : cases()) {
    Mr mr{*pd_, MrType::MemoryRegistration, "test"};
    mr.page_size = kPage;
    std::vector<std::uint64_t> pages;
    std::uint32_t offset = one.offset;
    const auto count = sg_to_pages(mr, one.list, &offset, [&](std::uint64_t page) {
      if (pages.size() == one.pages_taken) {
        return false;
      }
      pages.push_back(page);
      return true;
    });
    ASSERT_TRUE(count) << one.what;
    EXPECT_EQ(*count, one.count) << one.what;
    EXPECT_EQ(offset, one.offset_after) << one.what;
    EXPECT_EQ(mr.iova, one.iova) << one.what;
    EXPECT_EQ(mr.length, one.length) << one.what;
    EXPECT_THAT(pages, ElementsAreArray(one.pages)) << one.what;
  }
}

TEST_F(SgToPages, RefusesWhatHasNoFirstPage) {
  Mr mr{*pd_, MrType::MemoryRegistration, "test"};
  mr.page_size = kPage;
  const auto take_all = [](std::uint64_t /*page*/) { return true; };
  const auto take_none = [](std::uint64_t /*page*/) { return false; };
  const std::vector<ScatterEntry> list{
      {.address = 0x1000, .length = 0x1000}
  };
  std::uint32_t beyond = 0x1001;
  EXPECT_EQ(sg_to_pages(mr, {}, nullptr, take_all).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(sg_to_pages(mr, list, &beyond, take_all).error().code, ErrorCode::InvalidArgument);
  EXPECT_FALSE(sg_to_pages(mr, list, nullptr, take_none));
}

}  // namespace
}  // namespace weft::core
