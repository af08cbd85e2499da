#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/flags.h"
#include "hca/types.h"

namespace weft::hca {

enum class WrTrait : std::uint16_t {
  OfferedByRc = 1U << 0,  // which QP types take it (IBTA vol 1 Table 84..); XRC's initiator as RC
  OfferedByUc = 1U << 1,
  OfferedByUd = 1U << 2,
  Write = 1U << 3,
  Atomic = 1U << 4,
  TakesResponse = 1U << 5,  // completes by a READ or atomic response, not by an acknowledgement
  NeedsCredit = 1U << 6,    // consumes a receive WQE of the peer: end-to-end credits count those
                            // (IBTA vol 1 §9.7.7.2)
  Immediate = 1U << 7,
  Invalidate = 1U << 8,  // of a key of the peer's
  Local = 1U << 9,       // sends nothing
  Plain = 1U << 10,      // a SEND or WRITE without more to it than an immediate
};
using WrTraits = Flags<WrTrait>;

/// What a kind of work request is, looked up for every one posted.
struct WrKind {
  WrOpcode opcode{};
  WcOpcode completion{};
  WrTraits traits;
};

namespace internal {
inline constexpr auto kWrKinds = [] {
  using enum WrTrait;
  constexpr WrTraits kRc{OfferedByRc};
  constexpr WrTraits kRcUc = kRc | OfferedByUc;
  constexpr WrTraits kAll = kRcUc | OfferedByUd;
  constexpr auto not_offered = [](unsigned opcode) {
    return WrKind{static_cast<WrOpcode>(opcode), WcOpcode::Send, {}};
  };
  // clang-format off
  return std::to_array<WrKind>({
      {WrOpcode::RdmaWrite,              WcOpcode::RdmaWrite,        kRcUc | Write | Plain},
      {WrOpcode::RdmaWriteWithImmediate, WcOpcode::RdmaWrite,        kRcUc | Write | NeedsCredit | Immediate | Plain},
      {WrOpcode::Send,                   WcOpcode::Send,             kAll | NeedsCredit | Plain},
      {WrOpcode::SendWithImmediate,      WcOpcode::Send,             kAll | NeedsCredit | Immediate | Plain},
      {WrOpcode::RdmaRead,               WcOpcode::RdmaRead,         kRc | TakesResponse},
      {WrOpcode::CompareSwap,            WcOpcode::CompareSwap,      kRc | TakesResponse | Atomic},
      {WrOpcode::FetchAdd,               WcOpcode::FetchAdd,         kRc | TakesResponse | Atomic},
      {WrOpcode::LocalInvalidate,        WcOpcode::LocalInvalidate,  kRcUc | Local},
      {WrOpcode::BindMemoryWindow,       WcOpcode::BindMemoryWindow, kRcUc | Local},
      {WrOpcode::SendWithInvalidate,     WcOpcode::Send,             kRc | NeedsCredit | Invalidate},
      not_offered(10),
      not_offered(11),
      not_offered(12),
      not_offered(13),
      {WrOpcode::Flush,                  WcOpcode::Flush,            kRc | TakesResponse                   },
      {WrOpcode::AtomicWrite,            WcOpcode::AtomicWrite,      kRc | TakesResponse                   },
  });
  // clang-format on
}();
inline constexpr bool kRowsAreByOpcode = [] {
  for (std::size_t row = 0; row < kWrKinds.size(); ++row) {
    if (static_cast<std::size_t>(kWrKinds[row].opcode) != row) {
      return false;
    }
  }
  return true;
}();
static_assert(kRowsAreByOpcode);
}  // namespace internal

inline constexpr std::size_t kWrKindCount = internal::kWrKinds.size();

/// Of an opcode that exists.
[[nodiscard]] constexpr const WrKind& kind_of(WrOpcode opcode) {
  return internal::kWrKinds[static_cast<std::size_t>(opcode)];
}

[[nodiscard]] constexpr bool has(WrOpcode opcode, WrTrait trait) {
  return kind_of(opcode).traits.has(trait);
}

/// Whether QPs of `type` take it; `opcode` may be any number.
[[nodiscard]] constexpr bool is_offered(QpType type, WrOpcode opcode) {
  constexpr unsigned kFirstType = static_cast<unsigned>(QpType::Rc);
  static_assert(static_cast<unsigned>(WrTrait::OfferedByRc) == 1 &&
                static_cast<unsigned>(QpType::Ud) == kFirstType + 2);
  if (type == QpType::XrcTarget) {
    return false;  // it has no send queue (annex A14)
  }
  if (type == QpType::XrcInitiator && opcode == WrOpcode::AtomicWrite) {
    return false;  // only RC's is carried here
  }
  const QpType like = type == QpType::XrcInitiator ? QpType::Rc : type;
  return static_cast<std::size_t>(opcode) < kWrKindCount &&
         has(opcode, static_cast<WrTrait>(1U << (static_cast<unsigned>(like) - kFirstType)));
}

}  // namespace weft::hca
