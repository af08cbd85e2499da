#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/flags.h"
#include "hca/types.h"

namespace weft::hca {

/// Properties of a kind of work request that engines test for.
enum class WrTrait : std::uint16_t {
  OfferedByRc =
      1U << 0,  // which QP types offer it (IBTA vol 1 Table 84); an XRC initiator counts as RC
  OfferedByUc = 1U << 1,
  OfferedByUd = 1U << 2,
  Write = 1U << 3,
  Atomic = 1U << 4,
  TakesResponse = 1U << 5,  // completed by a READ or atomic response, not by an acknowledgement
  NeedsCredit = 1U << 6,    // consumes a receive WQE of the peer, so it needs an end-to-end credit
                            // (IBTA vol 1 §9.7.7.2)
  Immediate = 1U << 7,
  Invalidate = 1U << 8,  // of one of the peer's keys
  Local = 1U << 9,       // sends no packet
  Plain = 1U << 10,      // a SEND or WRITE with no operand besides immediate data
};
using WrTraits = Flags<WrTrait>;

/// Properties of one kind of work request, looked up for every one posted.
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
      not_offered(16), not_offered(17), not_offered(18), not_offered(19),
      not_offered(20), not_offered(21), not_offered(22), not_offered(23),
      not_offered(24), not_offered(25), not_offered(26), not_offered(27),
      not_offered(28), not_offered(29), not_offered(30), not_offered(31),
      {WrOpcode::RegisterMemory,         WcOpcode::RegisterMemory,   kRcUc | Local                         },
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

/// `opcode` must exist.
[[nodiscard]] constexpr const WrKind& kind_of(WrOpcode opcode) {
  return internal::kWrKinds[static_cast<std::size_t>(opcode)];
}

[[nodiscard]] constexpr bool has(WrOpcode opcode, WrTrait trait) {
  return kind_of(opcode).traits.has(trait);
}

/// True if QPs of `type` offer `opcode`, which may be any number.
[[nodiscard]] constexpr bool is_offered(QpType type, WrOpcode opcode) {
  constexpr unsigned kFirstType = static_cast<unsigned>(QpType::Rc);
  static_assert(static_cast<unsigned>(WrTrait::OfferedByRc) == 1 &&
                static_cast<unsigned>(QpType::Ud) == kFirstType + 2);
  if (type == QpType::XrcTarget) {
    return false;  // no send queue (annex A14)
  }
  if (type == QpType::XrcInitiator && opcode == WrOpcode::AtomicWrite) {
    return false;  // not implemented for XRC
  }
  const QpType like = type == QpType::XrcInitiator ? QpType::Rc : type;
  return static_cast<std::size_t>(opcode) < kWrKindCount &&
         has(opcode, static_cast<WrTrait>(1U << (static_cast<unsigned>(like) - kFirstType)));
}

}  // namespace weft::hca
