#pragma once

// A fault of links as a person asks for it (docs/ARCHITECTURE.md, decision 8): a kind, which
// packets of which links, and how often. Values; text goes in and out as strings. No threading
// rule.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/serial.h"
#include "base/time.h"

namespace weft::fabric {

enum class FaultKind : std::uint8_t {
  Drop = 1,   // the link loses the packet
  Corrupt,    // bits change on the link: the next port finds a wrong VCRC and discards the packet
  Duplicate,  // the packet is sent twice
  Reorder,    // it is held back, so that others overtake it
  Down,       // the link itself is down for a time; no packets are chosen
};

/// Which directions of a link: `Out` is what the named port sends, `In` what it receives.
enum class FaultSide : std::uint8_t { Both, Out, In };

struct FaultDescription {
  /// All policy, not from any specification.
  static constexpr std::uint32_t kAlways = 1'000'000;
  static constexpr Duration kDefaultHold = Duration::microseconds(100);
  static constexpr Duration kLongestHold = Duration::seconds(1);
  static constexpr Duration kLongestTime = Duration::seconds(86'400);
  static constexpr std::uint64_t kMaxPackets = 1'000'000'000'000;  // of every, after and count

  struct PsnRange {
    Psn first;
    Psn last;  // first and last belong to it; it may go past 2^24-1
    bool operator==(const PsnRange&) const = default;
  };

  FaultKind kind{FaultKind::Drop};
  FaultSide side{FaultSide::Both};
  std::string port;                  // of the link, or a node: all of its links; empty: all links
  std::vector<std::string> opcodes;  // patterns of names; none: all
  std::optional<Lid> slid;
  std::optional<Lid> dlid;
  std::optional<Qpn> dest_qp;
  std::optional<PsnRange> psns;

  // Of the packets that match, counted over all links of the rule:
  std::uint64_t after{};                     // so many pass first
  std::uint64_t every{1};                    // of the rest each so many-th is hit,
  std::uint32_t parts_per_million{kAlways};  // or each with this probability
  std::uint64_t count{};                     // at most so many are hit; 0: without end
  std::uint64_t seed{1};                     // of the probability

  Duration hold{kDefaultHold};  // of Reorder
  Duration lasts;               // until the rule ends by itself; 0: it does not

  bool operator==(const FaultDescription&) const = default;
};

/// How a rule is written, for messages.
inline constexpr std::string_view kFaultGrammar =
    "KIND [p=PROBABILITY | every=N] [after=N] [count=N] [link=PORT | out=PORT | in=PORT] "
    "[opcode=PATTERN] [psn=A-B] [slid=LID] [dlid=LID] [qp=QPN] [by=TIME] [for=TIME] [seed=N], KIND "
    "is drop, corrupt, duplicate, reorder or down";

/// `drop p=0.01`, `corrupt every=3 count=1 out=h1:1 opcode=*-send-*`, `down link=s1:2 for=200ms`:
/// a kind, then words in any order with blanks or commas between.
[[nodiscard]] Result<FaultDescription> read_fault(std::string_view text);

/// Text that read_fault() reads back to an equal value.
[[nodiscard]] std::string to_string(const FaultDescription& fault);

[[nodiscard]] std::string_view name_of(FaultKind kind);

/// Whether the name of an opcode fits a pattern: `*` is any text; case, blanks, `-` and `_` do not
/// count, so that `rc-send-only`, `RC_SEND_ONLY` and `RcSendOnly` are one.
[[nodiscard]] bool fits(std::string_view pattern, std::string_view opcode_name);

}  // namespace weft::fabric
