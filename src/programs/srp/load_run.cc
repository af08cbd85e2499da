#include "programs/srp/load_run.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "scsi/lun.h"
#include "scsi/sense.h"

namespace weft::programs::srp {
namespace {

constexpr std::chrono::milliseconds kTick{20};  // policy: when deadlines are looked at
constexpr std::size_t kMostSamples = 8 << 20;   // policy: later commands are counted only
constexpr std::uint64_t kFirstPlace = 0x9E37'79B9'7F4A'7C15;

[[nodiscard]] Duration cpu_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return Duration::seconds(time.tv_sec) + Duration::microseconds(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

[[nodiscard]] double seconds_of(Duration span) {
  return static_cast<double>(span.nanoseconds()) / 1e9;
}

/// READ (16) or WRITE (16) (SBC-3 §5.15, §5.38).
[[nodiscard]] std::vector<std::byte> transfer(bool writes, std::uint64_t block,
                                              std::uint32_t blocks) {
  std::vector<std::byte> cdb(16);
  cdb[0] = std::byte{writes ? std::uint8_t{0x8A} : std::uint8_t{0x88}};
  for (std::size_t i = 0; i < 8; ++i) {
    cdb[2 + i] = static_cast<std::byte>(block >> (56 - 8 * i));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    cdb[10 + i] = static_cast<std::byte>(blocks >> (24 - 8 * i));
  }
  return cdb;
}

/// By sense data of either format (SPC-4 §4.5).
[[nodiscard]] bool is_unit_attention(ByteSpan sense) {
  constexpr unsigned kFixed = 0x70;
  if (sense.size() < 3) {
    return false;
  }
  const bool is_fixed = (std::to_integer<unsigned>(sense[0]) & 0x7E) == kFixed;
  const auto key = std::to_integer<unsigned>(sense[is_fixed ? 2 : 1]) & 0x0F;
  return key == static_cast<unsigned>(scsi::SenseKey::UnitAttention);
}

[[nodiscard]] std::uint64_t random_half() {
  std::array<std::byte, sizeof(std::uint64_t)> octets{};
  iscsi::LibcryptoChap{}.fill_random(octets);
  return std::bit_cast<std::uint64_t>(octets);
}

}  // namespace

double percentile(std::vector<float>& samples, double share) {
  if (samples.empty()) {
    return 0;
  }
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size() - 1));
  std::ranges::nth_element(samples, samples.begin() + at);
  return samples[static_cast<std::size_t>(at)];
}

std::string to_json(const LoadResult& result, std::uint32_t bytes) {
  const double rate =
      result.seconds > 0 ? static_cast<double>(result.commands) / result.seconds : 0;
  return fmt::format(
      R"({{"sessions": {}, "refused": {}, "lost": {}, "commands": {}, "failed": {}, )"
      R"("login_seconds": {:.6f}, "seconds": {:.6f}, "per_second": {:.1f}, "mib_per_second": {:.2f}, )"
      R"("median_us": {:.3f}, "percentile_99_us": {:.3f}, "cpu_us": {:.3f}}})",
      result.sessions, result.refused, result.lost, result.commands, result.failed,
      result.login_seconds, result.seconds, rate, rate * bytes / (1 << 20), result.median_us,
      result.percentile_99_us, result.cpu_us);
}

std::string to_text(const LoadResult& result, std::uint32_t bytes) {
  const double rate =
      result.seconds > 0 ? static_cast<double>(result.commands) / result.seconds : 0;
  return fmt::format(
      "{} sessions in {:.3f} s, {} refused, {} lost\n"
      "{} commands in {:.2f} s, {} failed: {:.0f} a second, {:.1f} MiB/s\n"
      "median {:.1f} us, 99 % within {:.1f} us; {:.2f} us of CPU time each",
      result.sessions, result.login_seconds, result.refused, result.lost, result.commands,
      result.seconds, result.failed, rate, rate * bytes / (1 << 20), result.median_us,
      result.percentile_99_us, result.cpu_us);
}

LoadRun::LoadRun(TargetUrl target, std::uint64_t blocks, std::uint32_t block_bytes,
                 LoadOptions options)
    : target_(std::move(target)),
      blocks_(blocks),
      block_bytes_(block_bytes),
      options_(std::move(options)) {}

Result<LoadResult> LoadRun::run() {
  if (options_.bytes % block_bytes_ != 0 || blocks_ * block_bytes_ < options_.bytes) {
    return fail(ErrorCode::InvalidArgument,
                "commands of {} octets: the unit has {} blocks of {} octets", options_.bytes,
                blocks_, block_bytes_);
  }
  if (auto opened = open(); !opened) {
    return std::unexpected(opened.error());
  }
  started_ = os::now();
  for (Lane& lane : lanes_) {
    lane.leg->start(false);
  }
  tick();
  loop_.run();
  if (measured_from_ != Instant::never() && result_.commands != 0) {
    result_.cpu_us = seconds_of(cpu_time() - cpu_before_) * 1e6 /
                     static_cast<double>(result_.commands + result_.failed);
  }
  result_.median_us = percentile(samples_, 0.5);
  result_.percentile_99_us = percentile(samples_, 0.99);
  return result_;
}

Result<void> LoadRun::open() {
  auto device = InitiatorDevice::open(loop_, options_.device);
  if (!device) {
    return std::unexpected(device.error());
  }
  device_ = *std::move(device);
  samples_.reserve(std::min<std::size_t>(kMostSamples, 1 << 20));
  place_ = kFirstPlace;
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
  if (measured_from_ == Instant::never() && all_decided) {
    begin();
  }
  const bool is_late = measured_from_ != Instant::never() &&
                       now >= measured_from_ + Duration::seconds(options_.seconds);
  if (is_late || has_ended()) {
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
  measured_from_ = os::now();
  result_.login_seconds = seconds_of(measured_from_ - started_);
  cpu_before_ = cpu_time();
  for (Lane& lane : lanes_) {
    for (std::size_t slot = 0; slot < lane.slots.size(); ++slot) {
      submit(lane, slot);
    }
  }
}

void LoadRun::end() {
  if (measured_from_ != Instant::never()) {
    result_.seconds = seconds_of(os::now() - measured_from_);
  }
  is_ending_ = true;
  for (Lane& lane : lanes_) {
    lane.leg->stop();
  }
  lanes_.clear();  // waits for channels that are ending
  device_.reset();
  loop_.stop();
}

std::uint64_t LoadRun::next_block() {
  const std::uint64_t step = options_.bytes / block_bytes_;
  const std::uint64_t places = blocks_ / step;
  if (options_.is_sequential) {
    return place_++ % places * step;
  }
  place_ ^= place_ << 13;  // xorshift64
  place_ ^= place_ >> 7;
  place_ ^= place_ << 17;
  return place_ % places * step;
}

void LoadRun::submit(Lane& lane, std::size_t slot) {
  if (is_ending_ || lane.is_over) {
    return;
  }
  Slot& used = lane.slots[slot];
  const std::uint32_t blocks = options_.bytes / block_bytes_;
  weft::srp::Request request{.id = slot,
                             .lun = scsi::lun_address(scsi::Lun{target_.lun}),
                             .cdb = transfer(options_.writes, next_block(), blocks)};
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
    ++result_.failed;  // the session is over, which handle_state() has been told
  }
}

void LoadRun::handle_outcome(SessionLeg& leg, std::uint64_t id, const weft::srp::Outcome& outcome) {
  if (is_ending_) {
    return;
  }
  Lane& lane = lanes_[leg.index()];
  WEFT_ASSERT(id < lane.slots.size(), "ids are slots");
  const bool is_told =
      outcome.kind == weft::srp::Outcome::Kind::Answered && is_unit_attention(outcome.sense);
  if (is_told) {
    // Of each session once: what has happened before it (SAM-5 §5.14).
  } else if (outcome.is_good()) {
    ++result_.commands;
    if (samples_.size() < kMostSamples) {
      samples_.push_back(static_cast<float>(seconds_of(os::now() - lane.slots[id].began) * 1e6));
    }
  } else {
    ++result_.failed;
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
      result_.sessions += lane.was_live ? 0 : 1;
      lane.was_live = true;
      break;
    case Idle:
      ++result_.refused;
      lane.is_over = true;
      break;
    case Blocked:
      ++result_.lost;
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
