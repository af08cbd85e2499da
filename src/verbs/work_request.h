#pragma once

#include <cstdint>

#include "base/flags.h"
#include "base/keys.h"

namespace weft::verbs {

/// Operation of a send work request (IBTA vol 1 §11.4.1.1), with the verbs API's numbers.
enum class WrOpcode : std::uint8_t {
  RdmaWrite,
  RdmaWriteWithImmediate,
  Send,
  SendWithImmediate,
  RdmaRead,
  CompareSwap,
  FetchAdd,
  LocalInvalidate,
  BindMemoryWindow,
  SendWithInvalidate,
  Flush = 14,  // the numbers between are operations that Weft does not offer
  AtomicWrite,
  RegisterMemory = 32,  // of the kernel's API, as what follows: no program's
  RegisterMemoryIntegrity,
};

/// Flags of a send work request, with the verbs API's bits.
enum class Send : std::uint32_t {
  Fence = 1U << 0,
  Signaled = 1U << 1,
  Solicited = 1U << 2,
  Inline = 1U << 3
};
using SendFlags = Flags<Send>;

/// One element of a scatter/gather list: `length` bytes at virtual address `address` (in the MR's
/// own address space).
struct Sge {
  std::uint64_t address{};
  std::uint32_t length{};
  LKey lkey{};
};

}  // namespace weft::verbs
