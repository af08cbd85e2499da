#include "ulp/srp/session.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ulp/srp/planted_bug.h"

namespace weft::srp {
namespace {

constexpr unsigned kMostStale = 3;  // policy: rejections in a row that are passed over

}  // namespace

Result<MappingKind> choose_mapping(const MappingCapabilities& device, std::size_t pieces) {
  if (device.global_key && (pieces <= 1 || !device.fast_registration)) {
    return MappingKind::GlobalKey;
  }
  if (device.fast_registration) {
    return MappingKind::FastRegistration;
  }
  return fail(ErrorCode::NotSupported,
              "the device has neither fast registration nor a global key for remote access");
}

void Session::apply(PathEvent event, Instant now) {
  const PathTransition step = transition(state_, event);
  const bool moves = step.next != state_;
  state_ = step.next;
  switch (step.action) {
    case PathAction::Ignore:
      break;
    case PathAction::Connect:
      connect(now);
      break;
    case PathAction::Resume:
      reconnect_at_ = fast_fail_at_ = dev_loss_at_ = Instant::never();
      send_queued(now);
      break;
    case PathAction::Report:
    case PathAction::FailWaiting:
      end_queued(Outcome::Kind::PathFailed);
      break;
    case PathAction::Block:
      block(now);
      break;
    case PathAction::ArmReconnect:
      reconnect_at_ = now + options_.reconnect_delay;
      break;
    case PathAction::GiveUp:
      reconnect_at_ = fast_fail_at_ = dev_loss_at_ = login_until_ = Instant::never();
      is_connecting_ = false;
      connection_.disconnect();
      end_sent(Outcome::Kind::Interrupted);
      end_queued(Outcome::Kind::PathFailed);
      break;
  }
  if (moves) {
    client_.handle_path_state(state_);
  }
}

void Session::connect(Instant now) {
  reconnect_at_ = Instant::never();
  login_until_ = now + options_.login_timeout;
  is_connecting_ = true;
  const wire::SrpLoginReq login{
      .tag = next_tag_++,
      .requested_iu_length = options_.max_request_iu,
      .required_formats = wire::kSrpDirectFormat | wire::kSrpIndirectFormat,
      .immediate_data = options_.wants_immediate_data,
      .multichannel = options_.multichannel,
      .immediate_offset =
          options_.wants_immediate_data ? wire::kSrpDefaultImmediateOffset : std::uint16_t{0},
      .initiator_port_id = options_.initiator_port_id,
      .target_port_id = options_.target_port_id};
  connection_.connect(wire::pack(login));
}

void Session::block(Instant now) {
  reconnect_at_ = now + options_.reconnect_delay;
  fast_fail_at_ = options_.fast_io_fail ? now + *options_.fast_io_fail : Instant::never();
  dev_loss_at_ = options_.dev_loss ? now + *options_.dev_loss : Instant::never();
}

void Session::stop(Instant now) {
  if (state_ == PathState::Live) {
    std::ignore = connection_.post_send(wire::to_unit(wire::SrpILogout{.tag = next_tag_++}));
  }
  apply(PathEvent::Stop, now);
}

/// Only after disconnect() are the requests' memory and their outcomes anybody else's.
void Session::lose_channel(Instant now) {
  if (state_ != PathState::Live && !is_connecting_) {
    return;
  }
  is_connecting_ = false;
  login_until_ = Instant::never();
  task_.reset();
  credits_ = 0;
  connection_.disconnect();
  apply(PathEvent::ChannelLost, now);
  end_sent(planted(PlantedBug::InterruptedTakenAsDone) ? Outcome::Kind::Answered
                                                       : Outcome::Kind::Interrupted);
}

void Session::handle_connected(ByteSpan login_rsp, Instant now) {
  if (!is_connecting_) {
    return;
  }
  const auto response = wire::parse<wire::SrpLoginRsp>(login_rsp);
  const bool is_sound = response && response->opcode == wire::SrpOpcode::LoginRsp &&
                        response->request_limit_delta >= 2 &&
                        response->max_initiator_iu_length >= 64;
  if (!is_sound) {
    ++violations_;
    lose_channel(now);
    return;
  }
  is_connecting_ = false;
  login_until_ = Instant::never();
  credits_ = response->request_limit_delta;
  max_request_iu_ = std::min(options_.max_request_iu, response->max_initiator_iu_length);
  immediate_data_ = options_.wants_immediate_data && response->immediate_data;
  rejection_.reset();
  stale_ = 0;
  apply(PathEvent::LoginDone, now);
}

void Session::handle_stale(Instant now) {
  if (!is_connecting_) {
    return;
  }
  is_connecting_ = false;
  login_until_ = Instant::never();
  const bool gives_up = stale_++ == kMostStale;
  apply(gives_up ? PathEvent::LoginFailed : PathEvent::ConnectionStale, now);
}

void Session::handle_rejected(ByteSpan login_rej, Instant now) {
  if (!is_connecting_) {
    return;
  }
  const auto rejection = wire::parse<wire::SrpLoginRej>(login_rej);
  if (rejection && rejection->opcode == wire::SrpOpcode::LoginRej) {
    rejection_ = rejection->reason;
  }
  is_connecting_ = false;
  login_until_ = Instant::never();
  apply(PathEvent::LoginFailed, now);
}

void Session::handle_timeout(Instant now) {
  if (task_ && task_->until <= now) {
    escalate(now);
  }
  if (login_until_ <= now) {
    lose_channel(now);
  }
  if (dev_loss_at_ <= now) {
    dev_loss_at_ = Instant::never();
    apply(PathEvent::DevLossDue, now);
  }
  if (fast_fail_at_ <= now) {
    fast_fail_at_ = Instant::never();
    apply(PathEvent::FastFailDue, now);
  }
  if (reconnect_at_ <= now) {
    reconnect_at_ = Instant::never();
    apply(PathEvent::ReconnectDue, now);
  }
}

Instant Session::deadline() const {
  const Instant task = task_ ? task_->until : Instant::never();
  return std::min({task, login_until_, reconnect_at_, fast_fail_at_, dev_loss_at_});
}

void Session::end(std::map<std::uint64_t, Sent>::iterator sent, const Outcome& outcome) {
  const Sent ended = std::move(sent->second);
  spare_ = sent_.extract(sent);
  for (const std::uint64_t token : ended.mappings) {
    memory_.unmap(token);
  }
  client_.handle_outcome(ended.request.id, outcome);
}

/// A client may submit from handle_outcome, so that only those that are there now are ended.
void Session::end_sent(Outcome::Kind kind) {
  std::vector<std::uint64_t> tags;
  for (const auto& [tag, sent] : sent_) {
    tags.push_back(tag);
  }
  for (const std::uint64_t tag : tags) {
    end(sent_.find(tag), {.kind = kind});
  }
}

void Session::end_queued(Outcome::Kind kind) {
  for (std::size_t left = queue_.size(); left > 0 && !queue_.empty(); --left) {
    const std::uint64_t id = queue_.front().id;
    queue_.pop_front();
    client_.handle_outcome(id, {.kind = kind});
  }
}

}  // namespace weft::srp
