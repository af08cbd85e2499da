#include "os/schedule.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace weft::os {
namespace {

/// struct sched_attr of sched_setattr(2), first version.
struct SchedulingAttributes {
  std::uint32_t size{sizeof(SchedulingAttributes)};
  std::uint32_t policy{};
  std::uint64_t flags{};
  std::int32_t nice{};
  std::uint32_t priority{};
  std::uint64_t runtime_ns{};  // of an ordinary thread: its slice
  std::uint64_t deadline_ns{};
  std::uint64_t period_ns{};
};

constexpr std::uint64_t kShortestSlice = 100'000;  // ns; what Linux takes at least

}  // namespace

void request_prompt_scheduling() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0) {
    attributes.runtime_ns = kShortestSlice;
    static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
  }
}

}  // namespace weft::os
