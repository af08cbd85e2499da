#include "programs/srp/session_leg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.h"
#include "programs/srp/unit_identity.h"
#include "scsi/lun.h"
#include "wire/srp/login.h"

namespace weft::programs::srp {

using weft::srp::Outcome;
using weft::srp::PathState;
using weft::srp::Request;

namespace {

constexpr Duration kCheckInterval = Duration::seconds(2);  // policy
constexpr std::size_t kPageBytes = 252;  // the longest that ALLOCATION LENGTH of SPC-2 asks for
constexpr std::array kInquiryDesignators{
    std::byte{0x12}, std::byte{0x01},       std::byte{0x83},
    std::byte{0x00}, std::byte{kPageBytes}, std::byte{0x00}};  // SPC-4 §6.6, §7.8.6

}  // namespace

SessionLeg::SessionLeg(InitiatorDevice& device, std::size_t index, const TargetUrl& target,
                       const SessionLegOptions& options, SessionLegClient& client)
    : device_(device),
      index_(index),
      target_(target),
      options_(options),
      client_(client),
      link_(device, target, *this),
      session_(*this, link_, link_, options.session) {}

PathStatus SessionLeg::status() const {
  return {.where = link_.where(),
          .target = target_.port_id,
          .state = session_.state(),
          .credits = session_.credits(),
          .outstanding = session_.outstanding(),
          .queued = session_.queued(),
          .logins = logins_,
          .losses = losses_,
          .last_failure = last_failure_};
}

void SessionLeg::start(bool persistent) {
  is_persistent_ = persistent;
  session_.start(os::now());
}

void SessionLeg::stop() {
  is_stopped_ = true;
  start_at_ = check_at_ = Instant::never();
  link_.linger();
  session_.stop(os::now());
}

void SessionLeg::give_up(const std::string& reason) {
  is_stopped_ = true;
  start_at_ = check_at_ = Instant::never();
  last_failure_ = reason;
  client_.handle_reason(*this, reason);
  session_.stop(os::now());
}

void SessionLeg::handle_timeout(Instant now) {
  session_.handle_timeout(now);
  if (start_at_ <= now) {
    start_at_ = Instant::never();
    session_.start(now);
  }
  if (check_at_ <= now) {
    check_at_ = now + kCheckInterval;
    if (inquiry_ == nullptr && session_.state() == PathState::Live) {
      ask_designators();
    }
  }
}

Instant SessionLeg::deadline() const {
  return std::min({start_at_, check_at_, session_.deadline()});
}

void SessionLeg::handle_path_state(PathState state) {
  logins_ += state == PathState::Live ? 1 : 0;
  losses_ += state == PathState::Blocked ? 1 : 0;
  if (state == PathState::Idle && is_persistent_ && !is_stopped_) {
    start_at_ = os::now() + options_.session.reconnect_delay;
  }
  client_.handle_state(*this, state);
  const bool asks = state == PathState::Live && options_.asks_designators;
  check_at_ = asks ? os::now() + kCheckInterval : Instant::never();
  if (asks) {
    ask_designators();
  }
}

void SessionLeg::ask_designators() {
  auto buffer = device_.buffers().take(kPageBytes);
  if (!buffer) {
    client_.handle_designators(*this, std::unexpected(buffer.error()));
    return;
  }
  inquiry_ = *std::move(buffer);
  std::ranges::fill(inquiry_->octets(), std::byte{});
  Request request{
      .id = kInquiry,
      .lun = scsi::lun_address(scsi::Lun{target_.lun}
        ),
      .cdb = {kInquiryDesignators.begin(), kInquiryDesignators.end()},
      .direction = Request::Direction::In,
      .memory = {{.address = inquiry_->address(), .length = kPageBytes}}
  };
  if (const auto sent = session_.submit(std::move(request), os::now()); !sent) {
    inquiry_.reset();
    client_.handle_designators(*this, std::unexpected(sent.error()));
  }
}

void SessionLeg::take_designators(const Outcome& outcome) {
  const BufferPool::Lease buffer = std::move(inquiry_);
  if (outcome.kind != Outcome::Kind::Answered) {
    return;  // the next login asks again
  }
  // Of a command that has failed the page is empty.
  client_.handle_designators(
      *this,
      unit_designators(ByteSpan{buffer->octets()}.first(outcome.is_good() ? kPageBytes : 0)));
}

void SessionLeg::handle_outcome(std::uint64_t id, const Outcome& outcome) {
  if (id == kInquiry) {
    take_designators(outcome);
  } else {
    client_.handle_outcome(*this, id, outcome);
  }
}

void SessionLeg::handle_connected(ByteSpan login_rsp) {
  session_.handle_connected(login_rsp, os::now());
  client_.handle_settled();
}

void SessionLeg::handle_refused(ByteSpan login_rej, const std::string& reason) {
  const auto rejection = wire::parse<wire::SrpLoginRej>(login_rej);
  last_failure_ = rejection && rejection->opcode == wire::SrpOpcode::LoginRej
                      ? fmt::format("{}: {}", reason, name_of(rejection->reason))
                      : reason;
  client_.handle_reason(*this, last_failure_);
  session_.handle_rejected(login_rej, os::now());
  client_.handle_settled();
}

void SessionLeg::handle_stale(const std::string& reason) {
  last_failure_ = reason;
  client_.handle_reason(*this, reason);
  session_.handle_stale(os::now());
  client_.handle_settled();
}

void SessionLeg::handle_lost(const std::string& reason) {
  last_failure_ = reason;
  client_.handle_reason(*this, reason);
  session_.handle_lost(os::now());
  client_.handle_settled();
}

void SessionLeg::handle_unit(ByteSpan unit) {
  session_.handle_receive(unit, os::now());
  client_.handle_settled();
}

}  // namespace weft::programs::srp
