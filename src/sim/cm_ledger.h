#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/time.h"
#include "sim/verdict.h"

namespace weft::sim {

/// One life of a host's kernel side: it is another one after the host's restart.
struct HostLife {
  std::uint32_t host{};
  std::uint32_t life{};
  friend constexpr auto operator<=>(const HostLife&, const HostLife&) = default;
};

enum class CmSide : std::uint8_t { Client, Server };
[[nodiscard]] constexpr CmSide other(CmSide side) {
  return side == CmSide::Client ? CmSide::Server : CmSide::Client;
}

/// How an end came to its end.
enum class CmEnding : std::uint8_t {
  Closed,       ///< a DREQ of either side, or what stands for one
  Refused,      ///< by a REJ
  TimedOut,     ///< nobody answered
  Abandoned,    ///< its own user gave up, or refused
  ProcessDied,  ///< the host lives on
  HostDied,
};

/// What both ends of every connection of a simulation did and were told, and whether that may be:
/// ends agree on the outcome, nobody waits in vain for a peer that lives, no QP stays up after its
/// peer is gone, and a QP in time-wait is left alone. Knows nothing of the manager's states. One
/// thread.
class CmLedger {
 public:
  using Token = std::uint32_t;  ///< of a connection; stands in all that its ends say

  struct Plan {
    std::array<std::uint32_t, 2> hosts{};
    std::array<unsigned, 2> messages{};  ///< that each side sends before it closes in good order
    std::string_view kind{};
    Duration tells_within{};  ///< a DREQ with all its repetitions, and how long packets live
  };

  CmLedger(std::uint64_t seed, Duration time_wait, Verdict& verdict)
      : seed_(seed), time_wait_(time_wait), verdict_(verdict) {}

  [[nodiscard]] Token begin(const Plan& plan);
  [[nodiscard]] const Plan& plan(Token token) const { return at(token).plan; }

  // What ends report.
  void asked(Token token, CmSide side, HostLife life, Qpn qpn);
  /// The user of that side hears of the request of that QP.
  void announced(Token token, CmSide side, HostLife life, Qpn remote, Instant now);
  void replied(Token token, CmSide side, HostLife life, Qpn qpn);
  void up(Token token, CmSide side, Qpn remote, Instant now);
  /// A manager gave up waiting for its answer, which was asked for at that time or later.
  void timed_out(Token token, CmSide side, Instant since, std::string_view what);
  /// Nobody answered its LAP, which an end that lives does.
  void load_timed_out(Token token, CmSide side, Instant since);
  void refused_as_stale(Token token);
  void ended(Token token, CmSide side, CmEnding ending, Instant now);
  void time_wait_began(Token token, CmSide side, Instant now);
  void time_wait_over(Token token, CmSide side, Instant now);
  void qp_failed(Token token, CmSide side);
  /// Nobody will tell this side, for its peer gave up before it was connected, and its REJ may be
  /// lost: only a QP that sends would notice.
  [[nodiscard]] bool only_its_qp_would_notice(Token token, CmSide side) const;
  /// `side` sends its next one now.
  [[nodiscard]] std::vector<std::byte> next_message(Token token, CmSide side);
  void received(Token token, CmSide side, ByteSpan message);
  /// What goes with a REQ or REP, and comes with zeros behind; perhaps twice.
  [[nodiscard]] std::vector<std::byte> first_message(Token token, CmSide side,
                                                     std::size_t room) const;
  void received_first(Token token, CmSide side, ByteSpan message);
  [[nodiscard]] bool was_up(Token token, CmSide side) const;
  [[nodiscard]] unsigned sent_by(Token token, CmSide side) const;
  [[nodiscard]] unsigned received_by(Token token, CmSide side) const;

  void host_down(HostLife life, Instant now);
  void host_up(std::uint32_t host, Instant now);

  /// At any time.
  void check(Instant now);
  /// When nothing is under way any more.
  void check_at_end();
  [[nodiscard]] std::uint64_t connections_made() const { return made_; }
  [[nodiscard]] std::uint64_t messages_received() const { return messages_; }

  static constexpr std::size_t kTokenBytes = 4;
  static constexpr std::size_t kMostBytes = 900;  ///< of a message
  static void put(Token token, std::span<std::byte> to);
  [[nodiscard]] static Token token_of(ByteSpan bytes);

 private:
  struct End {
    std::optional<HostLife> life{};
    Qpn remote{};
    std::optional<CmEnding> ending{};
    Instant ended_at{};
    std::optional<Instant> time_wait_since{};
    bool was_up{};
    bool has_used_qp{};  ///< of which the other host may know already
    unsigned sent{};
    unsigned received{};
  };
  struct Entry {
    Plan plan{};
    std::array<End, 2> ends{};
  };
  /// A QP as another host's connection manager knows it.
  struct RemoteQp {
    HostLife who{};
    std::uint32_t host{};
    std::uint32_t qpn{};
    friend constexpr auto operator<=>(const RemoteQp&, const RemoteQp&) = default;
  };

  [[nodiscard]] Entry& at(Token token) { return entries_.at(token); }
  [[nodiscard]] const Entry& at(Token token) const { return entries_.at(token); }
  [[nodiscard]] static End& end_of(Entry& entry, CmSide side) {
    return entry.ends[static_cast<std::size_t>(side)];
  }
  [[nodiscard]] bool was_down_since(std::uint32_t host, Instant since) const;
  [[nodiscard]] bool any_host_died(const Entry& entry) const;
  void hold(const End& end, std::uint32_t peer_host, Instant until);
  void fail(Token token, std::string_view what);
  [[nodiscard]] bool use(std::uint32_t at, std::uint32_t host, Qpn qpn);
  [[nodiscard]] std::vector<std::byte> make_message(Token token, CmSide side, unsigned number,
                                                    std::size_t room) const;

  std::uint64_t seed_;
  Duration time_wait_;
  Verdict& verdict_;
  std::map<Token, Entry> entries_;
  std::set<Token> open_;  // not checked off
  Token last_token_{};
  std::map<RemoteQp, Instant> held_;  // until when nobody may have it anew
  std::set<RemoteQp> used_;           // of any life
  struct Outage {
    Instant from{};
    Instant until{Instant::never()};
  };
  std::map<std::uint32_t, std::vector<Outage>> outages_;
  std::uint64_t made_{};
  std::uint64_t messages_{};
};

}  // namespace weft::sim
