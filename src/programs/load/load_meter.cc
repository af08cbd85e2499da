#include "programs/load/load_meter.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weft::programs::load {
namespace {

constexpr std::size_t kMostSamples = 8 << 20;  // policy: later commands are counted only
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

[[nodiscard]] double rate_of(const LoadResult& result) {
  return result.seconds > 0 ? static_cast<double>(result.commands) / result.seconds : 0;
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
  const double rate = rate_of(result);
  return fmt::format(
      R"({{"sessions": {}, "refused": {}, "lost": {}, "commands": {}, "failed": {}, )"
      R"("login_seconds": {:.6f}, "seconds": {:.6f}, "per_second": {:.1f}, "mib_per_second": {:.2f}, )"
      R"("median_us": {:.3f}, "percentile_99_us": {:.3f}, "cpu_us": {:.3f}}})",
      result.sessions, result.refused, result.lost, result.commands, result.failed,
      result.login_seconds, result.seconds, rate, rate * bytes / (1 << 20), result.median_us,
      result.percentile_99_us, result.cpu_us);
}

std::string to_text(const LoadResult& result, std::uint32_t bytes) {
  const double rate = rate_of(result);
  return fmt::format(
      "{} sessions in {:.3f} s, {} refused, {} lost\n"
      "{} commands in {:.2f} s, {} failed: {:.0f} a second, {:.1f} MiB/s\n"
      "median {:.1f} us, 99 % within {:.1f} us; {:.2f} us of CPU time each",
      result.sessions, result.login_seconds, result.refused, result.lost, result.commands,
      result.seconds, result.failed, rate, rate * bytes / (1 << 20), result.median_us,
      result.percentile_99_us, result.cpu_us);
}

void print(const LoadResult& result, const LoadOptions& options, const char* program) {
  fmt::print("{}\n",
             options.is_json ? to_json(result, options.bytes) : to_text(result, options.bytes));
  if (!result.is_whole()) {
    fmt::print(stderr, "{}: {}\n", program,
               result.reason.empty() ? "commands have failed" : result.reason);
  }
}

LoadMeter::LoadMeter(const scsi::DiskProperties& unit, const LoadOptions& options)
    : places_(unit.bytes() / options.bytes),
      blocks_(options.bytes / unit.block_bytes),
      is_sequential_(options.is_sequential),
      span_(Duration::seconds(options.seconds)),
      place_(is_sequential_ ? 0 : kFirstPlace) {
  samples_.reserve(1 << 20);
}

Result<LoadMeter> LoadMeter::create(const scsi::DiskProperties& unit, const LoadOptions& options) {
  if (options.bytes % unit.block_bytes != 0 || unit.bytes() < options.bytes) {
    return fail(ErrorCode::InvalidArgument,
                "commands of {} octets: the unit has {} blocks of {} octets", options.bytes,
                unit.blocks, unit.block_bytes);
  }
  return LoadMeter{unit, options};
}

scsi::DiskExtent LoadMeter::next() {
  if (is_sequential_) {
    return {.lba = place_++ % places_ * blocks_, .blocks = blocks_};
  }
  place_ ^= place_ << 13;  // xorshift64
  place_ ^= place_ >> 7;
  place_ ^= place_ << 17;
  return {.lba = place_ % places_ * blocks_, .blocks = blocks_};
}

void LoadMeter::begin(Instant now) {
  measured_from_ = now;
  result_.login_seconds = seconds_of(now - started_);
  cpu_before_ = cpu_time();
}

bool LoadMeter::is_over(Instant now) const { return has_begun() && now >= measured_from_ + span_; }

void LoadMeter::count(scsi::Verdict verdict, Instant began, Instant now) {
  if (verdict == scsi::Verdict::Done) {
    ++result_.commands;
    if (samples_.size() < kMostSamples) {
      samples_.push_back(static_cast<float>(seconds_of(now - began) * 1e6));
    }
  } else if (verdict != scsi::Verdict::Again) {
    ++result_.failed;
  }
}

void LoadMeter::end(Instant now) {
  if (has_begun()) {
    result_.seconds = seconds_of(now - measured_from_);
    cpu_used_ = cpu_time() - cpu_before_;
  }
}

LoadResult LoadMeter::finish() {
  if (result_.commands != 0) {
    result_.cpu_us =
        seconds_of(cpu_used_) * 1e6 / static_cast<double>(result_.commands + result_.failed);
  }
  result_.median_us = percentile(samples_, 0.5);
  result_.percentile_99_us = percentile(samples_, 0.99);
  return std::move(result_);
}

}  // namespace weft::programs::load
