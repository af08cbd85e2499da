#include "agents/trap_sender.h"

#include <span>

#include "wire/mad/mad.h"
#include "wire/mad/smp.h"

namespace weft::agents {

void TrapSender::raise(fabric::PortIndex port, const wire::Notice& notice, Duration interval,
                       Instant now) {
  const Key key{.port = port, .number = notice.trap_number};
  if (traps_.size() >= kMaxTraps && !traps_.contains(key)) {
    ++discarded_;
    return;
  }
  const auto [place, is_new] = traps_.try_emplace(key);
  Trap& trap = place->second;
  const Instant earliest = is_new ? now : std::max(now, trap.last_sent + trap.interval);
  trap.notice = notice;
  trap.interval = interval;
  trap.transaction_id = ++last_transaction_;
  trap.sends = 0;
  trap.is_over = false;
  schedule(place, earliest);
}

void TrapSender::schedule(Traps::iterator place, Instant due) {
  schedule_.erase({place->second.due, place->first});
  place->second.due = due;
  if (due != Instant::never()) {
    schedule_.emplace(due, place->first);
  }
}

/// The trap is sent no more. Its entry stays until its interval ends, which limits the rate of the
/// next such trap.
void TrapSender::settle(Traps::iterator place) {
  place->second.is_over = true;
  schedule(place, place->second.last_sent + place->second.interval);
}

bool TrapSender::repress(fabric::PortIndex port, std::uint64_t transaction_id) {
  for (auto place = traps_.lower_bound({.port = port});
       place != traps_.end() && place->first.port == port; ++place) {
    if (place->second.transaction_id == transaction_id && !place->second.is_over &&
        place->second.sends != 0) {
      settle(place);
      return true;
    }
  }
  return false;
}

void TrapSender::forget(fabric::PortIndex port) {
  auto place = traps_.lower_bound({.port = port});
  while (place != traps_.end() && place->first.port == port) {
    schedule(place, Instant::never());
    place = traps_.erase(place);
  }
}

std::optional<PendingTrap> TrapSender::poll(Instant now) {
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const auto place = traps_.find(schedule_.begin()->second);
    Trap& trap = place->second;
    if (trap.is_over) {
      schedule(place, Instant::never());
      traps_.erase(place);
      continue;
    }
    PendingTrap due{.port = place->first.port};
    wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::SubnLidRouted,
                               .method = wire::MadMethod::Trap,
                               .transaction_id = trap.transaction_id,
                               .attribute_id = wire::kAttributeNotice},
               std::span{due.mad}.first<wire::kSizeOf<wire::MadHeader>>());
    wire::pack(trap.notice,
               std::span{due.mad}.subspan<wire::kSmpDataAt, wire::kSizeOf<wire::Notice>>());
    trap.last_sent = now;
    if (++trap.sends >= kMaxSends) {
      settle(place);
    } else {
      schedule(place, now + trap.interval);
    }
    return due;
  }
  return std::nullopt;
}

Instant TrapSender::deadline() const {
  return schedule_.empty() ? Instant::never() : schedule_.begin()->first;
}

}  // namespace weft::agents
