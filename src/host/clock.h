#pragma once

#include <ctime>

#include "base/time.h"

namespace weft::host {

/// The live driver's clock: CLOCK_MONOTONIC, the same for all processes of a machine.
[[nodiscard]] inline Instant now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant{Duration::seconds(time.tv_sec) + Duration::nanoseconds(time.tv_nsec)};
}

/// Time of day since 1970, for captures.
[[nodiscard]] inline Duration time_of_day() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return Duration::seconds(time.tv_sec) + Duration::nanoseconds(time.tv_nsec);
}

}  // namespace weft::host
