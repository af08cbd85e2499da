#include "sriov/tunnel.h"

#include <bit>
#include <utility>

#include "base/assert.h"

namespace weft::sriov {
namespace {

struct Row {
  TunnelState state;
  TunnelInput input;
  TunnelState next;
};

constexpr auto kRows = std::to_array<Row>({
    {TunnelState::Down,     TunnelInput::Open,   TunnelState::Starting},
    {TunnelState::Starting, TunnelInput::Opened, TunnelState::Active  },
    {TunnelState::Starting, TunnelInput::Close,  TunnelState::Downing },
    {TunnelState::Active,   TunnelInput::Close,  TunnelState::Downing },
    {TunnelState::Downing,  TunnelInput::Closed, TunnelState::Down    },
});

}  // namespace

std::string_view name_of(TunnelState state) {
  switch (state) {
    case TunnelState::Down:
      return "DOWN";
    case TunnelState::Starting:
      return "STARTING";
    case TunnelState::Active:
      return "ACTIVE";
    case TunnelState::Downing:
      return "DOWNING";
  }
  return {};
}

std::optional<TunnelState> next_state(TunnelState state, TunnelInput input) {
  for (const Row& row : kRows) {
    if (row.state == state && row.input == input) {
      return row.next;
    }
  }
  return std::nullopt;
}

Tunnel::Tunnel(std::size_t ring_slots) : ring_slots_(ring_slots) {
  WEFT_ASSERT(std::has_single_bit(ring_slots), "rings have a power of two of slots");
}

Result<void> Tunnel::handle(TunnelInput input) {
  const auto next = next_state(state_, input);
  if (!next) {
    return fail(ErrorCode::InvalidArgument, "a tunnel that is {} cannot do this", name_of(state_));
  }
  state_ = *next;
  if (input == TunnelInput::Close) {
    completed_sends_ += sends_.size();  // flushed
    sends_.clear();
    receives_.clear();
  }
  return {};
}

Result<void> Tunnel::check_room(std::size_t used) const {
  if (state_ != TunnelState::Active) {
    return fail(ErrorCode::TryAgain, "the tunnel is {}, not ACTIVE", name_of(state_));
  }
  if (used >= ring_slots_) {
    return fail(ErrorCode::TryAgain, "all {} buffers of the tunnel are in use", ring_slots_);
  }
  return {};
}

Result<void> Tunnel::post_send(Qpn source_qp, const Buffer& buffer) {
  if (auto room = check_room(sends_.size()); !room) {
    return room;
  }
  sends_.push_back({.source_qp = source_qp, .buffer = buffer});
  return {};
}

std::optional<Tunnel::Send> Tunnel::take_send() {
  if (sends_.empty()) {
    return std::nullopt;
  }
  const Send send = sends_.front();
  sends_.pop_front();
  ++completed_sends_;
  return send;
}

Result<void> Tunnel::post_receive(const Buffer& buffer) {
  if (auto room = check_room(receives_.size()); !room) {
    return room;
  }
  receives_.push_back(buffer);
  return {};
}

std::optional<Tunnel::Buffer> Tunnel::take_receive() {
  if (receives_.empty()) {
    return std::nullopt;
  }
  const Buffer buffer = receives_.front();
  receives_.pop_front();
  return buffer;
}

void Tunnel::check_invariants() const {
  WEFT_ASSERT(sends_.size() <= ring_slots_ && receives_.size() <= ring_slots_,
              "rings have a limit");
  WEFT_ASSERT(state_ == TunnelState::Active || (sends_.empty() && receives_.empty()),
              "only an active tunnel holds MADs");
}

}  // namespace weft::sriov
