#include <gtest/gtest.h>

#include <cstdint>

#include "cm/rdma/rdma_cm.h"
#include "wire/mad/path_record.h"

namespace weft::cm {
namespace {

TEST(PathRecords, OfAnMtuThatDoesNotExistAreNoPaths) {
  for (unsigned code = 0; code < 64; ++code) {
    const wire::PathRecord record{.dlid = Lid{7}, .mtu = static_cast<std::uint8_t>(code)};
    const auto path = path_of(record);
    EXPECT_EQ(path.has_value(), code >= 1 && code <= 5) << code;
    if (path) {
      EXPECT_EQ(static_cast<unsigned>(path->mtu), code);
      EXPECT_EQ(path->dlid, Lid{7});
    }
  }
}

}  // namespace
}  // namespace weft::cm
