#include "sim/cm_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/outcome.h"

namespace weft::sim {
namespace {

/// Without a peer that could notify: time until a QP notices that the peer does not answer.
constexpr Duration kNoticesWithin = Duration::seconds(12);
constexpr Duration kTimersAreExactTo = Duration::milliseconds(1);

}  // namespace

void CmLedger::put(Token token, std::span<std::byte> to) {
  for (std::size_t i = 0; i < kTokenBytes; ++i) {
    to[i] = static_cast<std::byte>(token >> 8 * i);
  }
}

CmLedger::Token CmLedger::token_of(ByteSpan bytes) {
  Token token = 0;
  for (std::size_t i = 0; i < kTokenBytes; ++i) {
    token |= std::to_integer<Token>(bytes[i]) << 8 * i;
  }
  return token;
}

void CmLedger::fail(Token token, std::string_view what) {
  const Entry& entry = at(token);
  verdict_.fail(fmt::format("connection {} ({}) of h{} to h{}: {}", token, entry.plan.kind,
                            entry.plan.hosts[0], entry.plan.hosts[1], what));
}

CmLedger::Token CmLedger::begin(const Plan& plan) {
  const Token token = ++last_token_;
  entries_[token].plan = plan;
  open_.insert(token);
  return token;
}

/// Records the use of a QPN. Returns true if it was used before.
bool CmLedger::use(std::uint32_t at, std::uint32_t host, Qpn qpn) {
  return !used_.insert({.who = {.host = at}, .host = host, .qpn = qpn.value()}).second;
}

void CmLedger::asked(Token token, CmSide side, HostLife life, Qpn qpn) {
  Entry& entry = at(token);
  const std::uint32_t peer = entry.plan.hosts[static_cast<std::size_t>(other(side))];
  end_of(entry, side) = {.life = life, .has_used_qp = use(peer, life.host, qpn)};
}

void CmLedger::announced(Token token, CmSide side, HostLife life, Qpn remote, Instant now) {
  if (!entries_.contains(token)) {
    return verdict_.fail("a request arrived that no end sent");
  }
  Entry& entry = at(token);
  End& end = end_of(entry, side);
  if (end.was_up && end.life == life) {
    fail(token, "its REQ was taken for a new one after the connection");
  }
  const std::uint32_t peer = entry.plan.hosts[static_cast<std::size_t>(other(side))];
  const auto held = held_.find({life, peer, remote.value()});
  if (held != held_.end() && now < held->second) {
    fail(token, "its QP was taken while it was in use or in time-wait (R-CM-11)");
  }
}

void CmLedger::replied(Token token, CmSide side, HostLife life, Qpn qpn) {
  Entry& entry = at(token);
  const std::uint32_t peer = entry.plan.hosts[static_cast<std::size_t>(other(side))];
  end_of(entry, side) = {.life = life, .has_used_qp = use(peer, life.host, qpn)};
}

void CmLedger::hold(const End& end, std::uint32_t peer_host, Instant until) {
  held_[{*end.life, peer_host, end.remote.value()}] = until;
}

void CmLedger::up(Token token, CmSide side, Qpn remote, Instant /*now*/) {
  Entry& entry = at(token);
  End& end = end_of(entry, side);
  if (end.was_up) {
    fail(token, "established twice");
  }
  end.was_up = true;
  end.remote = remote;
  hold(end, entry.plan.hosts[static_cast<std::size_t>(other(side))], Instant::never());
  made_ += side == CmSide::Client ? 1 : 0;
}

bool CmLedger::was_down_since(std::uint32_t host, Instant since) const {
  const auto found = outages_.find(host);
  return found != outages_.end() && std::ranges::any_of(found->second, [&](const Outage& outage) {
           return outage.until >= since;
         });
}

void CmLedger::timed_out(Token token, CmSide side, Instant since, std::string_view what) {
  const std::uint32_t peer = at(token).plan.hosts[static_cast<std::size_t>(other(side))];
  if (!was_down_since(peer, since)) {
    fail(token, fmt::format("no answer to its {} from a host that was never down", what));
  }
}

void CmLedger::load_timed_out(Token token, CmSide side, Instant since) {
  Entry& entry = at(token);
  if (!end_of(entry, other(side)).termination) {
    timed_out(token, side, since, "LAP");
  }
}

/// A stale rejection is legitimate if the peer's QP was stale too: its REP was rejected, and then
/// this REQ. It is also legitimate after giving up on a REP: the connection is in TimeWait, where a
/// retry of the same REQ is stale.
void CmLedger::refused_as_stale(Token token) {
  const Entry& entry = at(token);
  const auto is_reason = [](const End& end) {
    return end.has_used_qp || (end.life && end.termination);
  };
  if (std::ranges::none_of(entry.ends, is_reason)) {
    fail(token, "refused as stale, though no QP of it was ever used");
  }
}

void CmLedger::ended(Token token, CmSide side, CmTermination termination, Instant now) {
  Entry& entry = at(token);
  End& end = end_of(entry, side);
  if (end.termination) {
    return;
  }
  end.termination = termination;
  end.ended_at = now;
  if (end.was_up && !end.time_wait_since && termination != CmTermination::HostDied) {
    hold(end, entry.plan.hosts[static_cast<std::size_t>(other(side))], now + time_wait_);
  }
}

void CmLedger::time_wait_began(Token token, CmSide side, Instant now) {
  Entry& entry = at(token);
  End& end = end_of(entry, side);
  end.time_wait_since = now;
  if (end.was_up) {
    hold(end, entry.plan.hosts[static_cast<std::size_t>(other(side))], now + time_wait_);
  }
}

void CmLedger::time_wait_over(Token token, CmSide side, Instant now) {
  const End& end = end_of(at(token), side);
  if (!end.time_wait_since) {
    return fail(token, "out of a time-wait that never began");
  }
  const Duration waited = now - *end.time_wait_since;
  if (waited < time_wait_ || waited > time_wait_ + kTimersAreExactTo) {
    fail(token, fmt::format("a time-wait of {} us instead of {} us (R-CM-11)",
                            waited.microseconds(), time_wait_.microseconds()));
  }
}

void CmLedger::qp_failed(Token token, CmSide side) {
  Entry& entry = at(token);
  const End& peer = end_of(entry, other(side));
  const bool is_alone =
      peer.termination || (peer.life && was_down_since(peer.life->host, Instant{})) || !peer.was_up;
  if (!is_alone) {
    fail(token, "a QP failed while its peer was up");
  }
}

bool CmLedger::only_its_qp_notices(Token token, CmSide side) const {
  const End& peer = at(token).ends[static_cast<std::size_t>(other(side))];
  return peer.termination && !peer.was_up;
}

std::vector<std::byte> CmLedger::make_message(Token token, CmSide side, unsigned number,
                                              std::size_t room) const {
  const std::size_t spread = (seed_ * 131 + token * 17ULL + number * 7ULL) % (room - kTokenBytes);
  std::vector<std::byte> message(kTokenBytes + 1 + spread);
  put(token, message);
  for (std::size_t i = kTokenBytes; i < message.size(); ++i) {
    message[i] = pattern(seed_, token * 2ULL + static_cast<std::uint64_t>(side), number, i);
  }
  return message;
}

std::vector<std::byte> CmLedger::next_message(Token token, CmSide side) {
  return make_message(token, side, ++end_of(at(token), side).sent, kMaxBytes);
}

std::vector<std::byte> CmLedger::first_message(Token token, CmSide side, std::size_t room) const {
  return make_message(token, side, 0, room);
}

void CmLedger::received(Token token, CmSide side, ByteSpan message) {
  Entry& entry = at(token);
  const unsigned number = ++end_of(entry, side).received;
  ++messages_;
  if (number > end_of(entry, other(side)).sent) {
    return fail(token, "received more than was sent");
  }
  if (!std::ranges::equal(message, make_message(token, other(side), number, kMaxBytes))) {
    fail(token, fmt::format("message {} is another one than was sent", number));
  }
}

void CmLedger::received_first(Token token, CmSide side, ByteSpan message) {
  std::vector<std::byte> expected = first_message(token, other(side), message.size());
  expected.resize(message.size());
  if (!std::ranges::equal(message, expected)) {
    fail(token, "private data is not what was sent, with zeros behind");
  }
}

bool CmLedger::was_up(Token token, CmSide side) const {
  return at(token).ends[static_cast<std::size_t>(side)].was_up;
}
unsigned CmLedger::sent_by(Token token, CmSide side) const {
  return at(token).ends[static_cast<std::size_t>(side)].sent;
}
unsigned CmLedger::received_by(Token token, CmSide side) const {
  return at(token).ends[static_cast<std::size_t>(side)].received;
}

void CmLedger::host_down(HostLife life, Instant now) {
  outages_[life.host].push_back({.from = now});
  std::erase_if(held_, [&](const auto& entry) { return entry.first.who == life; });
}

void CmLedger::host_up(std::uint32_t host, Instant now) { outages_.at(host).back().until = now; }

bool CmLedger::any_host_died(const Entry& entry) const {
  return std::ranges::any_of(entry.plan.hosts,
                             [&](std::uint32_t host) { return was_down_since(host, Instant{}); });
}

/// Checks that no QP stays connected after its peer is gone.
void CmLedger::check(Instant now) {
  std::erase_if(open_, [&](Token token) {
    Entry& entry = at(token);
    const End& client = entry.ends[0];
    const End& server = entry.ends[1];
    const Duration bound =
        any_host_died(entry) ? kNoticesWithin + entry.plan.close_time : entry.plan.close_time;
    for (const auto& [gone, left] : {
             std::pair{&client, &server},
             std::pair{&server, &client}
    }) {
      if (gone->termination && left->was_up && !left->termination && now - gone->ended_at > bound) {
        fail(token, "an end is still up though its peer is gone");
      }
    }
    return client.termination && (server.termination || !server.life);
  });
}

/// Both ends must agree on whether they were connected, unless the unconnected one gave up at the
/// last moment or lost its host.
void CmLedger::check_at_end() {
  for (auto& [token, entry] : entries_) {
    const End& client = entry.ends[0];
    const End& server = entry.ends[1];
    if (client.life && !client.termination) {
      fail(token, "the client never came to its end");
    }
    if (server.life && !server.termination) {
      fail(token, "the server never came to its end");
    }
    if (any_host_died(entry)) {
      continue;
    }
    if (client.was_up != server.was_up) {
      const End& outside = client.was_up ? server : client;
      // A DREQ may overtake the RTU: an end that received it was connected as well.
      const bool gave_up = outside.termination == CmTermination::Abandoned ||
                           outside.termination == CmTermination::ProcessDied ||
                           outside.termination == CmTermination::Closed;
      if (!outside.life || !gave_up) {
        fail(token, fmt::format("only the {} was connected", client.was_up ? "client" : "server"));
      }
      continue;
    }
    const bool in_good_order =
        client.termination == CmTermination::Closed && server.termination == CmTermination::Closed;
    if (client.was_up && in_good_order &&
        (client.received < entry.plan.messages[1] || server.received < entry.plan.messages[0])) {
      fail(token, "closed in good order, but messages are missing");
    }
  }
}

}  // namespace weft::sim
