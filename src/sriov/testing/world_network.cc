// The network between ports, functions and SA, and what of it must hold for each MAD.

#include "sriov/testing/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sriov/testing/mads.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov::testing {

World::World(std::uint64_t seed, const Scenario& chosen) : scenario_(chosen), random_(seed) {
  for (std::size_t port = 0; port < 2; ++port) {
    muxes_[port] = std::make_unique<Multiplexer>(
        MultiplexerOptions{.port_guid = Guid{0x10 + port},
                           .most_functions = 512,
                           .ring_slots = 16,
                           .first_communication_id = static_cast<std::uint32_t>(random_())},
        now_);
    mux(port).set_manager(kSaLid, kLids[port]);
    mux(port).set_pkey_table({kDefaultPKey});
  }
  restart_sa();
  for (std::uint16_t i = 0; i < scenario_.functions; ++i) {
    for (std::size_t port = 0; port < 2; ++port) {
      add(port, FunctionId{static_cast<std::uint16_t>(kFirstNumber[port] + i)});
    }
  }
}

void World::add(std::size_t port, FunctionId function) {
  const std::uint64_t number = ++last_life_;
  if (!mux(port).add_function(function, {.guid = Guid{0x1000 + number}}, now_)) {
    --last_life_;  // MADs for the one that had the number may still come
    return;
  }
  Life& life = lives_[number];
  life.number = number;
  life.port = port;
  life.function = function;
  life.guid = Guid{0x1000 + number};
  life.cm = std::make_unique<CmEnds>([this, &life](const End& end, const MadBytes& mad) {
    post(life, mad, end.peer_lid, std::nullopt, end.peer_life, true);
  });
  std::ignore = mux(port).services().add_listener(function, number, kDefaultPKey);
}

Life* World::of(std::uint64_t number) {
  const auto found = lives_.find(number);
  return found == lives_.end() ? nullptr : &found->second;
}

Life* World::at(std::size_t port, FunctionId function) {
  for (auto& [number, life] : lives_) {
    if (life.is_alive && life.port == port && life.function == function) {
      return &life;
    }
  }
  return nullptr;
}

Life* World::pick(bool wants_active) {
  std::vector<Life*> some;
  for (auto& [number, life] : lives_) {
    const bool is_active =
        life.is_alive && mux(life.port).port_state(life.function) == FunctionPortState::Active;
    if (wants_active ? is_active : !life.is_alive) {
      some.push_back(&life);
    }
  }
  return some.empty() ? nullptr : some[random_.below(some.size())];
}

void World::post(Life& life, const MadBytes& mad, Lid to, std::optional<Gid> dgid,
                 std::uint64_t receiver, bool must_arrive) {
  wire::TunnelSend send{.mad = mad};
  send.header.remote_qpn = kQp1;
  send.header.qkey = kGsiQKey;
  send.header.address.dlid = to;
  send.header.address.is_global = dgid.has_value();
  send.header.address.dgid = dgid.value_or(Gid{});
  const Qpn proxy = mux(life.port).proxy_qpn(life.function, SpecialQp::Gsi);
  if (mux(life.port).post_send(life.function, SpecialQp::Gsi, proxy, send)) {
    serve(life.port, receiver, must_arrive);
  }
}

/// What one function has just posted goes out, with whom it is meant for.
void World::serve(std::size_t port, std::uint64_t receiver, bool must_arrive) {
  const auto decision = mux(port).serve_tunnel(now_);
  const Life* const life = at(port, decision->function);
  if (decision->action() == Action::SendToWire) {
    const auto mad = mux(port).poll_wire(now_);
    check_id(port, *life, mad->bytes);
    Packet packet{.sender = life->number, .receiver = receiver, .must_arrive = must_arrive};
    packet.to = mad->to.lid;
    packet.mad.slid = kLids[port];
    packet.mad.bytes = mad->bytes;
    if (mad->to.global) {
      packet.mad.grh = wire::Grh{.sgid = life->gid(), .dgid = mad->to.global->dgid};
    }
    transmit(packet);
  } else {
    const bool may_be = decision->reason == Reason::Aggregated ||
                        decision->reason == Reason::MulticastRefused ||
                        decision->reason == Reason::UnknownLocalCommunicationId;
    expect(may_be, "a send is refused: " + to_string(*decision));
  }
  send_own(port);
  drain(port, nullptr);
}

void World::send_own(std::size_t port) {
  while (const auto mad = mux(port).poll_wire(now_)) {
    check_request(port, mad->bytes);
    Packet packet{.sender = kPortLife, .receiver = kSaLife, .to = mad->to.lid};
    packet.mad.slid = kLids[port];
    packet.mad.bytes = mad->bytes;
    transmit(packet);
  }
}

/// SA is asked for the union, and what it is to forget nobody has any more.
void World::check_request(std::size_t port, const MadBytes& bytes) {
  const auto mad = wire::unpack<wire::SaMad>(bytes);
  // Sent again it may be old: a function that moved here has joined since.
  const bool is_new = seen_requests_.insert({port, mad.sa.header.transaction_id}).second;
  if (!is_member_record(mad.sa.header) || !is_new) {
    return;
  }
  const auto record = sriov::record_of(mad);
  const JoinStates wanted = mux(port).groups().wanted(record.mgid);
  if (mad.sa.header.method == MadMethod::Set) {
    expect(record.join_state.has_all(wanted), "SA is not asked for the union");
  } else {
    expect((record.join_state & wanted).empty(), "a membership is left that a function has");
  }
}

/// An ID on the wire stands for one connection for ever: the cycle is long.
void World::check_id(std::size_t port, const Life& life, const MadBytes& mad) {
  const wire::MadHeader header = header_of(mad);
  const auto attribute = static_cast<wire::CmAttribute>(header.attribute_id);
  const std::uint32_t local = communication_ids_of(mad).local;
  if (header.mgmt_class != wire::ManagementClass::ComMgt || local == 0 ||
      attribute == wire::CmAttribute::SidrRep) {
    return;
  }
  wire_ids_[{life.number, cookie_of(mad)}] = local;
  const auto [known, is_new] = cookie_of_id_.try_emplace({port, local}, cookie_of(mad));
  expect(is_new || known->second == cookie_of(mad),
         "an ID stands for two connections: port " + std::to_string(port) + ", connections " +
             std::to_string(known->second) + " and " + std::to_string(cookie_of(mad)) + ", " +
             std::string{wire::attribute_name(header.mgmt_class, header.attribute_id)} + ", at " +
             std::to_string(now_.since_start().milliseconds()) + " ms");
}

void World::transmit(Packet packet) {
  const unsigned loss = is_settling_ ? 0 : scenario_.loss;
  const bool is_own = packet.sender == kPortLife;
  const bool is_repeated = random_.chance(loss, 100) && !is_own;
  const unsigned copies = random_.chance(loss, 100) ? 0 : is_repeated ? 2 : 1;
  for (unsigned copy = 0; copy < copies; ++copy) {
    const auto delay = Duration::milliseconds(1 + static_cast<std::int64_t>(random_.below(300)));
    Instant when = now_ + delay;
    if (is_own) {  // on one path packets keep their order, and are not repeated
      Instant& last = last_own_[packet.mad.slid];
      last = when = std::max(last, when);
    }
    under_way_.emplace(std::pair{when, ++order_}, packet);
  }
}

void World::arrive(const Packet& packet) {
  if (packet.to == kSaLid) {
    arrive_at_sa(packet);
    return;
  }
  for (std::size_t port = 0; port < 2; ++port) {
    if (packet.to == kLids[port]) {
      arrive_at_port(port, packet);
    }
  }
}

void World::arrive_at_sa(const Packet& packet) {
  const auto request = wire::unpack<wire::SaMad>(packet.mad.bytes);
  const wire::SaMad answer = sa_.answer(request, packet.mad.slid);
  if (now_ < sa_is_silent_until_) {
    return;
  }
  Packet back{.sender = kSaLife, .receiver = packet.sender, .must_arrive = true};
  back.to = packet.mad.slid;
  back.mad.slid = kSaLid;
  back.mad.bytes = wire::pack(answer);
  if (packet.mad.grh) {
    back.mad.grh = wire::Grh{.sgid = packet.mad.grh->dgid, .dgid = packet.mad.grh->sgid};
  }
  transmit(back);
}

bool World::is_expected_there(std::size_t port, const Packet& packet) {
  Life* const life = of(packet.receiver);
  if (!packet.must_arrive || life == nullptr || !life->is_alive || life->port != port ||
      life->has_moved || mux(port).gid_of(life->function) != life->gid()) {
    return false;
  }
  const wire::MadHeader header = header_of(packet.mad.bytes);
  if (header.mgmt_class != wire::ManagementClass::ComMgt ||
      header.attribute_id == static_cast<std::uint16_t>(wire::CmAttribute::Req) ||
      header.attribute_id == static_cast<std::uint16_t>(wire::CmAttribute::SidrReq)) {
    return true;
  }
  // A REJ that names no ID of ours is found by its REQ, if one came from the same LID: the sender
  // may have moved since.
  if (header.attribute_id == static_cast<std::uint16_t>(wire::CmAttribute::Rej) &&
      communication_ids_of(packet.mad.bytes).remote == 0 &&
      !heard_requests_.contains({packet.mad.slid, cookie_of(packet.mad.bytes)})) {
    return false;
  }
  // A REJ may be of a REQ that never came; and after time-wait nothing needs to arrive.
  const End* const end = life->cm->find_cookie(cookie_of(packet.mad.bytes));
  return end != nullptr &&
         (end->state != EndState::Closed || now_ < end->since + Duration::seconds(20));
}

void World::arrive_at_port(std::size_t port, const Packet& packet) {
  const bool is_expected = is_expected_there(port, packet);
  const Decision decision = mux(port).handle_wire(packet.mad, now_);
  if (packet.receiver == kPortLife) {
    expect(decision.action() != Action::Deliver, "a function gets a port's answer");
  } else if (decision.action() == Action::Deliver) {
    heard_requests_.emplace(packet.mad.slid, cookie_of(packet.mad.bytes));
    const Life* const life = at(port, decision.function);
    const Life* const meant = of(packet.receiver);
    // A service whose function is not here any more has no other owner than the port's.
    const bool is_orphaned = decision.reason == Reason::DefaultOwner && meant != nullptr &&
                             (!meant->is_alive || meant->port != port);
    expect(is_orphaned || (life != nullptr && life->number == packet.receiver),
           "delivered to another one: " + to_string(decision));
  } else if (is_expected) {
    expect(false, "not delivered: " + to_string(decision));
  }
  drain(port, &packet);
  send_own(port);
  drain(port, nullptr);
  mux(port).check_invariants();
}

void World::drain(std::size_t port, const Packet* packet) {
  while (mux(port).poll_receive(kPhysicalFunction, SpecialQp::Gsi)) {
  }
  for (auto& [number, life] : lives_) {
    while (life.is_alive && life.port == port) {
      const auto receive = mux(port).poll_receive(life.function, SpecialQp::Gsi);
      if (!receive) {
        break;
      }
      take(life, *receive, packet);
    }
  }
}

void World::take(Life& life, const wire::TunnelReceive& receive, const Packet* packet) {
  const wire::MadHeader header = header_of(receive.mad);
  if (header.mgmt_class == wire::ManagementClass::ComMgt) {
    if (packet != nullptr && packet->receiver == life.number) {
      take_cm(life, receive.mad, *packet);
    }
  } else if (header.mgmt_class == wire::ManagementClass::SubnAdm) {
    take_answer(life, receive.mad);
  }
}

void World::take_cm(Life& life, const MadBytes& mad, const Packet& packet) {
  const auto attribute = static_cast<wire::CmAttribute>(header_of(mad).attribute_id);
  if (attribute == wire::CmAttribute::SidrReq) {
    const auto request = testing::cm_message<wire::SidrReq>(mad);
    MadBytes answer = testing::make_cm(wire::CmAttribute::SidrRep,
                                       wire::SidrRep{.request_id = request.request_id});
    set_cookie(answer, cookie_of(mad));
    post(life, answer, packet.mad.slid, std::nullopt, packet.sender, false);
  } else if (attribute == wire::CmAttribute::SidrRep) {
    expect(communication_ids_of(mad).local == cookie_of(mad) % 1000 + 1000,
           "the answer to a SIDR_REQ has another one's number");
  } else {
    const bool is_own = life.cm->receive(mad, packet.sender, packet.mad.slid, now_);
    expect(is_own || life.has_moved, "a message belongs to another connection");
  }
}

void World::take_answer(Life& life, const MadBytes& bytes) {
  const auto mad = wire::unpack<wire::SaMad>(bytes);
  expect(tag_of(mad.sa.header.transaction_id) == 0, "a tag reaches a function");
  if (!is_member_record(mad.sa.header)) {
    expect(cookie_of(bytes) == life.number, "a function gets another one's record");
    return;
  }
  if (!life.join || life.join->transaction_id != mad.sa.header.transaction_id) {
    expect(false, "an answer about a membership that nobody asked for");
    return;
  }
  const PendingJoin join = *std::exchange(life.join, std::nullopt);
  expect(sriov::record_of(mad).port_gid == life.gid() && sriov::record_of(mad).mgid == join.mgid,
         "a membership of another one");
  expect(mad.sa.header.status == 0, "a membership is refused");
  JoinStates& states = life.groups[join.mgid];
  states = join.method == MadMethod::Set ? states | join.states : states.without(join.states);
  expect(sriov::record_of(mad).join_state == states, "a function is told another join state");
}

}  // namespace weft::sriov::testing
