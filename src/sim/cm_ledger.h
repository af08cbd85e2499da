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

/// One incarnation of a host's kernel side; a restart starts the next one.
struct HostLife {
  std::uint32_t host{};
  std::uint32_t life{};
  friend constexpr auto operator<=>(const HostLife&, const HostLife&) = default;
};

enum class CmSide : std::uint8_t { Client, Server };
[[nodiscard]] constexpr CmSide other(CmSide side) {
  return side == CmSide::Client ? CmSide::Server : CmSide::Client;
}

/// How an end terminated.
enum class CmTermination : std::uint8_t {
  Closed,       ///< DREQ of either side, or its equivalent
  Refused,      ///< by a REJ
  TimedOut,     ///< no answer
  Abandoned,    ///< its own user gave up or rejected
  ProcessDied,  ///< the host remained up
  HostDied,
};

/// Checker of all connections of a simulation, from the reports of their ends: both ends agree on
/// the outcome, no end waits forever for a live peer, no QP stays connected after its peer is gone,
/// and QPs in TimeWait are not reused. Independent of the manager's states. Not thread-safe.
class CmLedger {
 public:
  using Token = std::uint32_t;  ///< identifies a connection; contained in all its messages

  struct Plan {
    std::array<std::uint32_t, 2> hosts{};
    /// number of messages each side sends before an orderly close
    std::array<unsigned, 2> messages{};
    std::string_view kind{};
    Duration close_time{};  ///< duration of a DREQ with all retries, plus packet lifetime
  };

  CmLedger(std::uint64_t seed, Duration time_wait, Verdict& verdict)
      : seed_(seed), time_wait_(time_wait), verdict_(verdict) {}

  [[nodiscard]] Token begin(const Plan& plan);
  [[nodiscard]] const Plan& plan(Token token) const { return at(token).plan; }

  // Reports of ends:
  void asked(Token token, CmSide side, HostLife life, Qpn qpn);
  /// The user of that side received the request of that QP.
  void announced(Token token, CmSide side, HostLife life, Qpn remote, Instant now);
  void replied(Token token, CmSide side, HostLife life, Qpn qpn);
  void up(Token token, CmSide side, Qpn remote, Instant now);
  /// A manager gave up waiting for an answer that was requested at `since` or later.
  void timed_out(Token token, CmSide side, Instant since, std::string_view what);
  /// A LAP timed out; a live peer always answers.
  void load_timed_out(Token token, CmSide side, Instant since);
  void refused_as_stale(Token token);
  void ended(Token token, CmSide side, CmTermination termination, Instant now);
  void time_wait_began(Token token, CmSide side, Instant now);
  void time_wait_over(Token token, CmSide side, Instant now);
  void qp_failed(Token token, CmSide side);
  /// The peer gave up before the connection was established and its REJ may be lost: only a QP that
  /// sends would notice.
  [[nodiscard]] bool only_its_qp_notices(Token token, CmSide side) const;
  /// The next message that `side` sends.
  [[nodiscard]] std::vector<std::byte> next_message(Token token, CmSide side);
  void received(Token token, CmSide side, ByteSpan message);
  /// Private data of a REQ or REP; received with zero padding, possibly twice.
  [[nodiscard]] std::vector<std::byte> first_message(Token token, CmSide side,
                                                     std::size_t room) const;
  void received_first(Token token, CmSide side, ByteSpan message);
  [[nodiscard]] bool was_up(Token token, CmSide side) const;
  [[nodiscard]] unsigned sent_by(Token token, CmSide side) const;
  [[nodiscard]] unsigned received_by(Token token, CmSide side) const;

  void host_down(HostLife life, Instant now);
  void host_up(std::uint32_t host, Instant now);

  /// Checks invariants that always hold.
  void check(Instant now);
  /// Checks that everything terminated, when no message is in flight.
  void check_at_end();
  [[nodiscard]] std::uint64_t connections_made() const { return made_; }
  [[nodiscard]] std::uint64_t messages_received() const { return messages_; }

  static constexpr std::size_t kTokenBytes = 4;
  static constexpr std::size_t kMaxBytes = 900;  ///< of a message
  static void put(Token token, std::span<std::byte> to);
  [[nodiscard]] static Token token_of(ByteSpan bytes);

 private:
  struct End {
    std::optional<HostLife> life{};
    Qpn remote{};
    std::optional<CmTermination> termination{};
    Instant ended_at{};
    std::optional<Instant> time_wait_since{};
    bool was_up{};
    bool has_used_qp{};  ///< the peer's host may know its QPN
    unsigned sent{};
    unsigned received{};
  };
  struct Entry {
    Plan plan{};
    std::array<End, 2> ends{};
  };
  /// A QP as known by another host's connection manager.
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
  std::set<Token> open_;  // not completely checked yet
  Token last_token_{};
  std::map<RemoteQp, Instant> held_;  // end of the time in which the QPN must not be reused
  std::set<RemoteQp> used_;           // in any incarnation
  struct Outage {
    Instant from{};
    Instant until{Instant::never()};
  };
  std::map<std::uint32_t, std::vector<Outage>> outages_;
  std::uint64_t made_{};
  std::uint64_t messages_{};
};

}  // namespace weft::sim
