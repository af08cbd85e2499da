// What functions do, and what befalls them.

#include "sriov/testing/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sriov/testing/mads.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov::testing {

void World::ask_sa(Life& life) {
  wire::SaMad mad = testing::make_sa(MadMethod::Get, wire::SaAttribute::PathRecord,
                                     wire::McMemberRecord{}, 0, ++life.last_transaction);
  MadBytes bytes = wire::pack(mad);
  set_cookie(bytes, life.number);
  const bool is_global = random_.chance(1, 2);
  post(life, bytes, kSaLid, is_global ? std::optional{Gid{kDefaultGidPrefix, Guid{9}}} : std::nullopt,
       kSaLife, false);
}

void World::change_membership(Life& life) {
  if (life.join) {
    return;
  }
  const Gid mgid = mgid_of(random_.below(kGroups));
  const JoinStates own = life.groups[mgid];
  const bool leaves = !own.empty() && random_.chance(1, 2);
  // Leaving takes all or one of the states; joining adds any of the three.
  const auto any = JoinStates::from_bits(static_cast<std::uint8_t>(1 + random_.below(7)));
  const JoinStates states = !leaves ? any : (own & any).empty() ? own : own & any;
  life.join = {.transaction_id = ++life.last_transaction,
               .method = leaves ? MadMethod::Delete : MadMethod::Set,
               .mgid = mgid,
               .states = states,
               .asked = now_};
  send_join(life);
}

void World::send_join(Life& life) {
  const PendingJoin& join = *life.join;
  const wire::McMemberRecord record{
      .mgid = join.mgid, .port_gid = life.gid(), .join_state = join.states};
  const auto mad = testing::make_sa(join.method, wire::SaAttribute::McMemberRecord, record,
                                    kMembershipMask, join.transaction_id);
  life.join->asked = now_;
  post(life, wire::pack(mad), kSaLid, std::nullopt, kSaLife, false);
}

void World::connect(Life& life) {
  Life* const other = pick();
  if (other != nullptr && other->number != life.number) {
    life.cm->connect(new_cookie(), other->number, kLids[other->port], other->gid(), now_);
  }
}

void World::disconnect(Life& life) {
  for (End& end : life.cm->ends) {
    if (end.state == EndState::Established) {
      life.cm->disconnect(end, now_);
      return;
    }
  }
}

void World::resolve_service(Life& life) {
  Life* const other = pick();
  if (other == nullptr) {
    return;
  }
  const bool is_global = random_.chance(1, 2);
  const std::uint64_t cookie = new_cookie();
  wire::SidrReq request{.request_id = static_cast<std::uint32_t>(cookie % 1000 + 1000),
                        .pkey = kDefaultPKey,
                        .service_id = is_global ? 1U : other->number};
  std::ranges::copy(life.gid().octets(), request.private_data.begin() + 56);
  MadBytes mad = testing::make_cm(wire::CmAttribute::SidrReq, request);
  set_cookie(mad, cookie);
  post(life, mad, kLids[other->port], is_global ? std::optional{other->gid()} : std::nullopt,
       other->number, is_global || !other->has_moved);
}

void World::send_to_the_dead(Life& life) {
  if (const Life* const dead = pick(false); dead != nullptr) {
    life.cm->connect(new_cookie(), dead->number, kLids[dead->port], dead->gid(), now_);
  }
}

/// Somebody answers in SA's place, with one function's transaction ID and another one's GID.
void World::forge_answer() {
  const Life* const one = pick();
  const Life* const other = pick();
  if (one == nullptr || one == other || one->port != 0 || other->port != 0) {
    return;  // the other port's functions have no tag that tells them apart
  }
  const auto tag = static_cast<std::uint8_t>(one->function.value());
  wire::SaMad mad = testing::make_sa(MadMethod::GetResp, wire::SaAttribute::PathRecord,
                                     wire::McMemberRecord{}, 0, with_tag(tag, 1));
  Packet packet{.sender = kNobody, .receiver = kNobody, .to = kLids[one->port]};
  packet.mad.slid = Lid{77};
  packet.mad.grh = wire::Grh{.sgid = {}, .dgid = other->gid()};
  packet.mad.bytes = wire::pack(mad);
  arrive(packet);
}

void World::kill(Life& life) {
  life.is_alive = false;
  std::ignore = mux(life.port).remove_function(life.function, now_);
  send_own(life.port);
  drain(life.port, nullptr);
}

void World::move_away(Life& life) {
  const std::size_t to = 1 - life.port;
  const std::size_t from = life.port;
  for (std::uint16_t i = 0; i < scenario_.functions * 2; ++i) {
    const FunctionId number{static_cast<std::uint16_t>(kFirstNumber[to] + i)};
    if (mux(to).has_function(number) || !mux(to).can_add(number, now_)) {
      continue;
    }
    const auto state = mux(from).export_function(life.function, now_);
    const auto lost = mux(to).import_function(number, {}, *state, now_);
    expect(lost.has_value(), "a function is lost on its way");
    std::ignore = mux(to).services().add_listener(number, life.number, kDefaultPKey);
    life.port = to;
    life.function = number;
    life.has_moved = true;
    life.join.reset();  // what it had asked for at the old port is not answered
    for (End& end : life.cm->ends) {
      const auto id = wire_ids_.find({life.number, end.cookie});
      if (lost && id != wire_ids_.end() && std::ranges::find(*lost, id->second) != lost->end()) {
        end.state = EndState::Closed;
        end.peer = 0;  // its number is not used again
      }
    }
    for (std::size_t port = 0; port < 2; ++port) {
      send_own(port);
      drain(port, nullptr);
    }
    return;
  }
}

void World::restart_sa() {
  sa_.forget();
  wire::PortInfo info;
  info.port_state = wire::LinkState::Active;
  info.client_reregister = true;
  MadBytes mad = testing::make_mad(wire::ManagementClass::SubnLidRouted, MadMethod::GetResp,
                                   static_cast<std::uint16_t>(wire::SmpAttribute::PortInfo), 1);
  std::ranges::copy(wire::pack(info), mad.begin() + wire::kSmpDataAt);
  for (std::size_t port = 0; port < 2; ++port) {
    mux(port).observe_smp(mad, MadMethod::Set, now_);
    send_own(port);
    drain(port, nullptr);
  }
}

}  // namespace weft::sriov::testing
