#pragma once

// A fault of links as a user describes it (docs/ARCHITECTURE.md, decision 8): its kind, the packets
// and links it concerns, and how often it strikes. Values without threading rule; text goes in and
// out as strings.

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

/// What a fault does to a link or its packets.
enum class FaultKind : std::uint8_t {
  Drop = 1,   // the link loses the packet
  Corrupt,    // bits change on the link: the next port detects a wrong VCRC and discards the packet
  Duplicate,  // the packet is sent twice
  Reorder,    // the packet is delayed so that others overtake it
  Down,       // the link itself goes down for a time; packets are not selected
};

/// Direction of a link: `Out` is what the named port sends, `In` what it receives.
enum class FaultSide : std::uint8_t { Both, Out, In };

/// One fault rule.
struct FaultDescription {
  /// All policy, not from a specification.
  static constexpr std::uint32_t kAlways = 1'000'000;
  static constexpr Duration kDefaultHold = Duration::microseconds(100);
  static constexpr Duration kLongestHold = Duration::seconds(1);
  static constexpr Duration kLongestTime = Duration::seconds(86'400);
  static constexpr std::uint64_t kMaxPackets = 1'000'000'000'000;  // for every, after and count

  /// An interval of PSNs.
  struct PsnRange {
    Psn first;
    Psn last;  // both inclusive; may wrap past 2^24-1
    bool operator==(const PsnRange&) const = default;
  };

  FaultKind kind{FaultKind::Drop};
  FaultSide side{FaultSide::Both};
  std::string port;                  // a port of the link; a node: all its links; empty: all links
  std::vector<std::string> opcodes;  // patterns of names; empty: all
  std::optional<Lid> slid;
  std::optional<Lid> dlid;
  std::optional<Qpn> dest_qp;
  std::optional<PsnRange> psns;

  // Selection among the packets that match, counted over all links of the rule:
  std::uint64_t after{};                     // skip the first packets
  std::uint64_t every{1};                    // hit each n-th of the rest,
  std::uint32_t parts_per_million{kAlways};  // or each with this probability
  std::uint64_t count{};                     // hit at most this many; 0: no limit
  std::uint64_t seed{1};                     // for the probability

  Duration hold{kDefaultHold};  // for Reorder
  Duration lasts;               // until the rule expires; 0: never

  bool operator==(const FaultDescription&) const = default;
};

/// The syntax of a rule, for messages.
inline constexpr std::string_view kFaultGrammar =
    "KIND [p=PROBABILITY | every=N] [after=N] [count=N] [link=PORT | out=PORT | in=PORT] "
    "[opcode=PATTERN] [psn=A-B] [slid=LID] [dlid=LID] [qp=QPN] [by=TIME] [for=TIME] [seed=N], KIND "
    "is drop, corrupt, duplicate, reorder or down";

/// Parses a rule: a kind, then words in any order, separated by blanks or commas, like `drop
/// p=0.01`, `corrupt every=3 count=1 out=h1:1 opcode=*-send-*`, `down link=s1:2 for=200ms`.
[[nodiscard]] Result<FaultDescription> read_fault(std::string_view text);

/// Text that read_fault() parses to an equal value.
[[nodiscard]] std::string to_string(const FaultDescription& fault);

[[nodiscard]] std::string_view name_of(FaultKind kind);

/// True if an opcode's name matches a pattern. `*` matches any text; case, blanks, `-` and `_` are
/// ignored, so that `rc-send-only`, `RC_SEND_ONLY` and `RcSendOnly` are equal.
[[nodiscard]] bool fits(std::string_view pattern, std::string_view opcode_name);

}  // namespace weft::fabric
