#include "sriov/testing/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sriov/testing/mads.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov::testing {

void World::tick() {
  for (std::size_t port = 0; port < 2; ++port) {
    mux(port).handle_timeout(now_);
    send_own(port);
    drain(port, nullptr);
  }
  for (auto& [number, life] : lives_) {
    if (!life.is_alive || mux(life.port).port_state(life.function) != FunctionPortState::Active) {
      continue;
    }
    life.cm->tick(now_);
    if (life.join && life.join->asked + Duration::seconds(9) <= now_) {
      send_join(life);
    }
  }
}

void World::run_for(Duration span) {
  const Instant end = now_ + span;
  for (;;) {
    const Instant packet = under_way_.empty() ? Instant::never() : under_way_.begin()->first.first;
    const Instant next = std::min(packet, next_tick_);
    if (next > end) {
      break;
    }
    now_ = std::max(now_, next);
    if (packet <= next_tick_) {
      const Packet arrived = under_way_.begin()->second;
      under_way_.erase(under_way_.begin());
      arrive(arrived);
    } else {
      next_tick_ = now_ + kTick;
      tick();
    }
  }
  now_ = end;
}

void World::move() {
  run_for(Duration::milliseconds(static_cast<std::int64_t>(random_.below(400))));
  const std::uint64_t kind = random_.below(scenario_.has_failures ? 107 : 96);
  Life* const life = pick();
  if (life == nullptr) {
    return;
  }
  if (kind < 20) {
    ask_sa(*life);
  } else if (kind < 50) {
    change_membership(*life);
  } else if (kind < 70) {
    connect(*life);
  } else if (kind < 82) {
    disconnect(*life);
  } else if (kind < 92) {
    resolve_service(*life);
  } else if (kind < 94) {
    send_to_the_dead(*life);
  } else if (kind < 96) {
    forge_answer();
  } else if (kind < 100) {
    kill(*life);
  } else if (kind < 102) {
    move_away(*life);
  } else if (kind < 104) {
    restart_sa();
  } else if (kind < 105) {
    sa_is_silent_until_ = now_ + Duration::seconds(8);
  } else {
    const std::size_t port = random_.below(2);
    add(port, FunctionId{static_cast<std::uint16_t>(kFirstNumber[port] +
                                                    random_.below(scenario_.functions))});
    send_own(port);
  }
}

void World::settle() {
  is_settling_ = true;
  sa_is_silent_until_ = now_;
  run_for(Duration::seconds(100));
  for (auto& [number, life] : lives_) {
    for (std::size_t i = 0; life.is_alive && i < life.cm->ends.size(); ++i) {
      if (life.cm->ends[i].state == EndState::Established) {
        life.cm->disconnect(life.cm->ends[i], now_);
      }
    }
  }
  run_for(Duration::seconds(80));
}

void World::check_end() {
  std::map<std::pair<Lid, Gid>, JoinStates> members;
  std::map<std::pair<Lid, std::uint16_t>, Guid> guids;
  for (const auto& [number, life] : lives_) {
    if (!life.is_alive) {
      continue;
    }
    expect(mux(life.port).port_state(life.function) == FunctionPortState::Active,
           "a port does not become Active");
    guids[{kLids[life.port], life.function.value()}] = life.guid;
    for (const auto& [mgid, states] : life.groups) {
      if (!states.empty()) {
        members[{kLids[life.port], mgid}] |= states;
      }
    }
    expect(!life.join, "a membership is never answered");
  }
  for (std::size_t port = 0; port < 2; ++port) {
    for (std::uint64_t group = 0; group < kGroups; ++group) {
      const auto key = std::pair{kLids[port], mgid_of(group)};
      expect(sa_.members[key] == members[key],
             "port " + std::to_string(port) + ": SA has states " +
                 std::to_string(sa_.members[key].bits()) + " of group " + std::to_string(group) +
                 ", functions have " + std::to_string(members[key].bits()) + ", the port counts " +
                 std::to_string(mux(port).groups().wanted(key.second).bits()));
    }
  }
  expect(sa_.guids == guids, "SA does not have the GUIDs of the functions that are there");
  // Of an exchange without an answer the ID is kept for long; of the rest none is left.
  run_for(Duration::seconds(320));
  std::map<std::size_t, std::size_t> moved;
  for (std::size_t port = 0; port < 2; ++port) {
    for (const auto& [number, life] : lives_) {
      if (life.is_alive && life.port == port && life.has_moved) {
        moved[port] += mux(port).communication_ids().count_of(life.function);
      }
    }
    expect(mux(port).communication_ids().size() == moved[port], "a communication ID is left");
    mux(port).check_invariants();
  }
}

std::vector<std::string> World::run() {
  run_for(Duration::seconds(3));
  for (unsigned i = 0; i < scenario_.moves; ++i) {
    move();
  }
  settle();
  check_end();
  return findings_;
}

}  // namespace weft::sriov::testing
