#include "programs/srp/load_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "scsi/disk_requests.h"
#include "scsi/lun.h"

namespace weft::programs::srp {
namespace {

constexpr std::chrono::milliseconds kTick{20};  // policy: when deadlines are looked at

[[nodiscard]] std::uint64_t random_half() {
  std::array<std::byte, sizeof(std::uint64_t)> octets{};
  iscsi::LibcryptoChap{}.fill_random(octets);
  return std::bit_cast<std::uint64_t>(octets);
}

}  // namespace

LoadRun::LoadRun(TargetUrl target, std::string device, load::LoadOptions options,
                 load::LoadMeter meter)
    : target_(std::move(target)),
      device_name_(std::move(device)),
      options_(options),
      meter_(std::move(meter)) {}

Result<load::LoadResult> LoadRun::run() {
  if (auto opened = open(); !opened) {
    return std::unexpected(opened.error());
  }
  meter_.start(os::now());
  for (Lane& lane : lanes_) {
    lane.leg->start(false);
  }
  tick();
  loop_.run();
  return meter_.finish();
}

Result<void> LoadRun::open() {
  auto device = InitiatorDevice::open(loop_, device_name_);
  if (!device) {
    return std::unexpected(device.error());
  }
  device_ = *std::move(device);
  lanes_.resize(options_.sessions);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const SessionLegOptions leg{
        .session = {.initiator_port_id = initiator_port_id(target_, random_half(), device_->guid()),
                    .target_port_id = target_.port_id,
                    .reconnect_delay = Duration::seconds(1),
                    .fast_io_fail = Duration::seconds(options_.fast_fail_seconds),
                    .dev_loss = Duration::seconds(options_.fast_fail_seconds + 1)}
    };
    SessionLegClient& told = *this;
    lanes_[i].leg = std::make_unique<SessionLeg>(*device_, i, target_, leg, told);
    lanes_[i].slots.resize(options_.depth);
    for (Slot& slot : lanes_[i].slots) {
      auto buffer = device_->buffers().take(options_.bytes);
      if (!buffer) {
        return std::unexpected(buffer.error());
      }
      slot.buffer = *std::move(buffer);
    }
  }
  return {};
}

/// Deadlines of all sessions, and the run's own.
void LoadRun::tick() {
  const Instant now = os::now();
  for (Lane& lane : lanes_) {
    if (lane.leg->deadline() <= now) {
      lane.leg->handle_timeout(now);
    }
  }
  const bool all_decided =
      std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.was_live || lane.is_over; });
  if (!meter_.has_begun() && all_decided) {
    begin();
  }
  if (meter_.is_over(now) || has_ended()) {
    end();
    return;
  }
  timer_.expires_after(kTick);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      tick();
    }
  });
}

bool LoadRun::has_ended() const {
  return std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.is_over; });
}

void LoadRun::begin() {
  meter_.begin(os::now());
  for (Lane& lane : lanes_) {
    for (std::size_t slot = 0; slot < lane.slots.size(); ++slot) {
      submit(lane, slot);
    }
  }
}

void LoadRun::end() {
  meter_.end(os::now());
  is_ending_ = true;
  for (Lane& lane : lanes_) {
    lane.leg->stop();
  }
  lanes_.clear();  // waits for channels that are ending
  device_.reset();
  loop_.stop();
}

void LoadRun::submit(Lane& lane, std::size_t slot) {
  if (is_ending_ || lane.is_over) {
    return;
  }
  Slot& used = lane.slots[slot];
  const scsi::DiskExtent extent = meter_.next();
  weft::srp::Request request{
      .id = slot,
      .lun = scsi::lun_address(scsi::Lun{target_.lun}),
      .cdb = options_.writes ? scsi::write_cdb(extent, false) : scsi::read_cdb(extent)};
  request.direction =
      options_.writes ? weft::srp::Request::Direction::Out : weft::srp::Request::Direction::In;
  request.memory = {
      {.address = used.buffer->address(), .length = options_.bytes}
  };
  if (options_.writes) {
    request.immediate = used.buffer->octets().first(options_.bytes);
  }
  used.began = os::now();
  if (const auto sent = lane.leg->session().submit(std::move(request), used.began); !sent) {
    meter_.count_failure();  // the session is over, which handle_state() has been told
  }
}

void LoadRun::handle_outcome(SessionLeg& leg, std::uint64_t id, const weft::srp::Outcome& outcome) {
  if (is_ending_) {
    return;
  }
  Lane& lane = lanes_[leg.index()];
  WEFT_ASSERT(id < lane.slots.size(), "ids are slots");
  if (outcome.kind == weft::srp::Outcome::Kind::Answered) {
    meter_.count(scsi::judge(static_cast<scsi::Status>(outcome.status), outcome.sense),
                 lane.slots[id].began, os::now());
  } else {
    meter_.count_failure();
  }
  submit(lane, id);
}

void LoadRun::handle_state(SessionLeg& leg, weft::srp::PathState state) {
  using enum weft::srp::PathState;
  if (is_ending_) {
    return;
  }
  Lane& lane = lanes_[leg.index()];
  switch (state) {
    case Live:
      meter_.result().sessions += lane.was_live ? 0 : 1;
      lane.was_live = true;
      break;
    case Idle:
      ++meter_.result().refused;
      lane.is_over = true;
      break;
    case Blocked:
      ++meter_.result().lost;
      break;
    case FailFast:
    case Lost:
      lane.is_over = true;
      break;
    case Connecting:
      break;
  }
}

}  // namespace weft::programs::srp
