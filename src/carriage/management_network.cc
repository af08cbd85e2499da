#include "carriage/management_network.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/walk.h"

namespace weft::carriage {

using fabric::PortIndex;
using fabric::PortRecord;
using mad::InterfaceKind;

ManagementNetwork::ManagementNetwork(fabric::TablesBuilder& tables, NodeAgents& agents,
                                     MadSink& sink, const CableOptions& cables)
    : tables_(tables),
      agents_(agents),
      sink_(sink),
      queued_of_(tables.ports().size()),
      cables_(tables, cables),
      next_psn_(tables.ports().size()) {}

void ManagementNetwork::grow() {
  queued_of_.resize(tables_.ports().size());
  next_psn_.resize(tables_.ports().size());
}

void ManagementNetwork::send(PortIndex from, InterfaceKind kind, const mad::MadPacket& packet) {
  WEFT_ASSERT(fabric::management_port(tables_, from) == from,
              "MADs leave by a node's management port");
  if (has_room(from)) {
    queue_.push_back({.from = from, .kind = kind, .packet = packet});
  }
}

bool ManagementNetwork::has_room(PortIndex from) {
  if (queued() >= kQueued || queued_of_[from.value()] >= kQueuedOfPort) {
    ++counters_.queue_full;
    return false;
  }
  ++queued_of_[from.value()];
  return true;
}

/// The same for what has a payload; if there is, it is taken.
bool ManagementNetwork::has_room_for(PortIndex from, std::size_t bytes) {
  if (queued_bytes_ + bytes > kQueuedBytes) {
    ++counters_.queue_full;
    return false;
  }
  if (!has_room(from)) {
    return false;
  }
  queued_bytes_ += bytes;
  return true;
}

bool ManagementNetwork::run(std::size_t budget, Instant now) {
  agents_.handle_timeout(now);
  cables_.set_time(now);
  retry_waiting(now);
  for (; budget != 0; --budget) {
    if (!late_.empty() && late_.begin()->first <= now) {
      InFlightPacket late = std::move(late_.extract(late_.begin()).mapped());
      land(late, now);
      continue;
    }
    if (const auto trap = agents_.poll_trap(now)) {
      carry_trap(*trap, now);
      continue;
    }
    if (queued() == 0) {
      queue_.clear();
      head_ = 0;
      return false;
    }
    InFlightPacket packet = std::move(queue_[head_++]);
    --queued_of_[packet.from.value()];
    queued_bytes_ -= packet.payload_bytes();
    carry(packet, now);
    constexpr std::size_t kCompactionThreshold = 64;
    if (head_ >= kCompactionThreshold && head_ * 2 >= queue_.size()) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  return deadline() <= now;
}

Instant ManagementNetwork::deadline() const {
  if (queued() != 0) {
    return Instant{};
  }
  Instant deadline = agents_.deadline();
  if (!late_.empty()) {
    deadline = std::min(deadline, late_.begin()->first);
  }
  return waiting_.empty() ? deadline : std::min(deadline, look_again_);
}

void ManagementNetwork::carry_trap(const PendingTrap& trap, Instant now) {
  const PortRecord& record = tables_.port(trap.port);
  ++counters_.traps;
  InFlightPacket packet{
      .from = trap.port,
      .kind = InterfaceKind::Smi,
      .packet = {.address = {.lid = record.sm_lid, .sl = record.sm_sl, .qp = kQp0},
                 .bytes = trap.mad}
  };
  carry(packet, now);
}

/// Takes a packet to where it goes, and the answer of an agent back.
void ManagementNetwork::carry(InFlightPacket& packet, Instant now) {
  const std::size_t qp = !packet.is_mad() ? 2 : packet.kind == InterfaceKind::Smi ? 0 : 1;
  Psn& next_psn = next_psn_[packet.from.value()][qp];
  packet.psn = next_psn;
  next_psn = next_psn + 1;
  if (set_out(packet)) {
    go_on(packet, now);
  }
}

void ManagementNetwork::go_on(InFlightPacket& packet, Instant now) {
  if (packet.is_multicast()) {
    return carry_to_group(packet, now);
  }
  switch (travel(packet, now)) {
    case Progress::Arrived:
      if (packet.kind == InterfaceKind::Smi || keys_pass(packet, now)) {
        deliver_or_delay(packet, now);
      }
      break;
    case Progress::Waits:
      wait_for_captures(packet, now);
      break;
    case Progress::Gone:
      break;
  }
}

void ManagementNetwork::wait_for_captures(InFlightPacket& packet, Instant now) {
  if (waiting_.empty()) {
    look_again_ = now + kBetweenLooks;
  }
  waiting_.push_back(std::move(packet));
}

void ManagementNetwork::retry_waiting(Instant now) {
  if (waiting_.empty() || now < look_again_) {
    return;
  }
  std::deque<InFlightPacket> turn = std::exchange(waiting_, {});
  for (InFlightPacket& packet : turn) {
    go_on(packet, now);
  }
}

void ManagementNetwork::deliver_or_delay(InFlightPacket& packet, Instant now) {
  const Instant arrives = std::max(packet.departs, now) + packet.delay;
  if (arrives == now) {
    land(packet, now);
  } else if (late_.size() < kQueued) {
    late_.emplace(arrives, packet);
  } else {
    ++counters_.queue_full;
  }
}

/// Each copy that has come so far.
void ManagementNetwork::land(InFlightPacket& packet, Instant now) {
  for (std::uint32_t copies = std::exchange(packet.copies, 1); copies > 1; --copies) {
    InFlightPacket copy = packet;
    receive(copy, now);
  }
  receive(packet, now);
}

void ManagementNetwork::receive(InFlightPacket& packet, Instant now) {
  ++counters_.carried;
  if (packet.omni_path != nullptr) {
    return receive_omni_path(packet, now);
  }
  if (packet.datagram != nullptr) {
    return receive_datagram(packet, now);
  }
  const mad::MadAddress source = source_of(packet);
  const PortIndex own = fabric::management_port(tables_, packet.arrival.at);
  const Outcome outcome = agents_.handle(packet.arrival.at, packet.kind, packet.packet.bytes, now);
  if (outcome == Outcome::NotHandled) {
    sink_.deliver(own, packet.kind, source, packet.packet.bytes, now);
  }
  if (outcome == Outcome::Answered && !packet.is_answer) {
    packet.from = own;
    packet.packet.address = source;
    packet.is_answer = true;
    carry(packet, now);
  }
  agents_.finish_sets(now);
}

}  // namespace weft::carriage
