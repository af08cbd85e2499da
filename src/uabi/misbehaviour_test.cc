#include <gtest/gtest.h>

#include "uabi/messages.h"

namespace weft::uabi {
namespace {

TEST(Misbehaviours, AreAllToldInWords) {
  for (std::size_t i = 1; i <= kMisbehaviourCount; ++i) {
    EXPECT_FALSE(words(static_cast<Misbehaviour>(i)).empty()) << i;
  }
}

}  // namespace
}  // namespace weft::uabi
