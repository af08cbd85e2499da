#include <gtest/gtest.h>

#include "uabi/messages.h"

namespace weft::uabi {
namespace {

TEST(RecordFaults, AreAllToldInWords) {
  for (std::size_t i = 1; i <= kRecordFaultCount; ++i) {
    EXPECT_FALSE(words(static_cast<RecordFault>(i)).empty()) << i;
  }
}

}  // namespace
}  // namespace weft::uabi
