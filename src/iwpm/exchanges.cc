#include "iwpm/exchanges.h"

#include <algorithm>
#include <utility>

#include "iwpm/planted_bug.h"

namespace weft::iwpm {
namespace {

[[nodiscard]] bool is_open(const Exchange& exchange) {
  return exchange.state == ExchangeState::Asking || exchange.state == ExchangeState::Offering;
}

}  // namespace

Exchanges::PeerKey Exchanges::key_of(const wire::iwpm::PeerMessage& message) {
  return {.handle = message.handle,
          .connecting_ip = message.connecting.ip,
          .connecting_port = message.connecting.port};
}

Exchange* Exchanges::begin_asking(Exchange exchange, Instant now) {
  if (own_.size() >= options_.most) {
    return nullptr;
  }
  exchange.state = ExchangeState::Asking;
  exchange.repeats_left = planted(PlantedBug::RequestNotRepeated) ? 0 : options_.repeats;
  exchange.due = now + options_.interval;
  const std::uint64_t handle = exchange.handle;
  const auto [at, is_new] = own_.try_emplace(handle, std::move(exchange));
  return is_new ? &at->second : nullptr;
}

Exchange* Exchanges::begin_offering(Exchange exchange, Instant now) {
  if (peers_.size() >= options_.most) {
    return nullptr;
  }
  exchange.state = ExchangeState::Offering;
  exchange.repeats_left = options_.repeats;
  exchange.due = now + options_.interval;
  const PeerKey key = key_of(exchange.sent);
  const auto [at, is_new] = peers_.try_emplace(key, std::move(exchange));
  return is_new ? &at->second : nullptr;
}

Exchange* Exchanges::find_own(std::uint64_t handle) {
  const auto found = own_.find(handle);
  return found == own_.end() ? nullptr : &found->second;
}

Exchange* Exchanges::find_peers(const wire::iwpm::PeerMessage& message) {
  const auto found = peers_.find(key_of(message));
  return found == peers_.end() ? nullptr : &found->second;
}

void Exchanges::close(Exchange& exchange, Instant now) {
  exchange.state =
      exchange.state == ExchangeState::Asking || exchange.state == ExchangeState::Accepted
          ? ExchangeState::Accepted
          : ExchangeState::Closed;
  exchange.due = now + options_.memory;
}

template <class Table>
void Exchanges::take_due_of(Table& table, Instant now, std::vector<Due>& due) const {
  for (auto it = table.begin(); it != table.end();) {
    Exchange& exchange = it->second;
    if (exchange.due > now) {
      ++it;
      continue;
    }
    if (!is_open(exchange)) {
      it = table.erase(it);
      continue;
    }
    if (exchange.repeats_left != 0) {
      --exchange.repeats_left;
      exchange.due = now + options_.interval;
      due.push_back({.exchange = exchange, .is_given_up = false});
      ++it;
      continue;
    }
    due.push_back({.exchange = exchange, .is_given_up = true});
    it = table.erase(it);
  }
}

std::vector<Exchanges::Due> Exchanges::take_due(Instant now) {
  std::vector<Due> due;
  take_due_of(own_, now, due);
  take_due_of(peers_, now, due);
  return due;
}

Instant Exchanges::first_deadline() const {
  Instant first = Instant::never();
  for (const auto& [handle, exchange] : own_) {
    first = std::min(first, exchange.due);
  }
  for (const auto& [key, exchange] : peers_) {
    first = std::min(first, exchange.due);
  }
  return first;
}

std::size_t Exchanges::open() const {
  const auto count = [](const auto& table) {
    return std::ranges::count_if(table, [](const auto& entry) { return is_open(entry.second); });
  };
  return static_cast<std::size_t>(count(own_) + count(peers_));
}

unsigned Exchanges::asking(const SocketAddress& local) const {
  return static_cast<unsigned>(std::ranges::count_if(own_, [&](const auto& entry) {
    return entry.second.state == ExchangeState::Asking && entry.second.asker.local.is_same(local);
  }));
}

}  // namespace weft::iwpm
