#pragma once

#include <cstdint>

#include "base/flags.h"

namespace weft::verbs {

/// What a memory region or window, or a QP, lets the network do (IBTA vol 1 §10.6.3, §10.2.4.3),
/// with the verbs API's bits.
enum class Access : std::uint32_t {
  LocalWrite = 1U << 0,
  RemoteWrite = 1U << 1,
  RemoteRead = 1U << 2,
  RemoteAtomic = 1U << 3,
  MemoryWindowBind = 1U << 4,
  ZeroBased = 1U << 5,
  OnDemand = 1U << 6,
  HugeTlb = 1U << 7,
  FlushGlobal = 1U << 8,      // a peer may make its data visible to the whole host,
  FlushPersistent = 1U << 9,  // or persistent (annex A19)
  RelaxedOrdering = 1U << 20,
};
using AccessFlags = Flags<Access>;

}  // namespace weft::verbs
