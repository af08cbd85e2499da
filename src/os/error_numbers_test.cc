#include "os/error_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <utility>

namespace weft::os {
namespace {

// T-DEV-6 (ENFILE), T-MI-2 (ECANCELED), and all others.
TEST(ErrorNumbers, AreThoseOfTheKernelAndEachOfOneCode) {
  constexpr auto kNumbers = std::to_array<std::pair<ErrorCode, int>>({
      {ErrorCode::InvalidArgument,     22 },
      {ErrorCode::OutOfMemory,         12 },
      {ErrorCode::Busy,                16 },
      {ErrorCode::NotSupported,        95 },
      {ErrorCode::NoSuchDevice,        19 },
      {ErrorCode::NotFound,            2  },
      {ErrorCode::NoData,              61 },
      {ErrorCode::TryAgain,            11 },
      {ErrorCode::PermissionDenied,    13 },
      {ErrorCode::TimedOut,            110},
      {ErrorCode::Refused,             111},
      {ErrorCode::Io,                  5  },
      {ErrorCode::Exists,              17 },
      {ErrorCode::BadAddress,          14 },
      {ErrorCode::AlreadyConnected,    106},
      {ErrorCode::AddressInUse,        98 },
      {ErrorCode::AddressNotAvailable, 99 },
      {ErrorCode::NetworkUnreachable,  101},
      {ErrorCode::NameTaken,           23 },
      {ErrorCode::NotImplemented,      38 },
      {ErrorCode::NoBufferSpace,       105},
      {ErrorCode::Cancelled,           125},
      {ErrorCode::Interrupted,         4  },
      {ErrorCode::ShutDown,            108},
  });
  std::set<int> numbers;
  for (const auto& [code, number] : kNumbers) {
    EXPECT_EQ(error_number_of(code), number);
    numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), kNumbers.size());
  EXPECT_EQ(kNumbers.size(), static_cast<std::size_t>(ErrorCode::ShutDown) + 1);
  EXPECT_EQ(error_number_of(ErrorCode::NameTaken), ENFILE);
}

}  // namespace
}  // namespace weft::os
