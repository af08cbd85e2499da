// Pma: counters sampled over an interval (IBTA vol 1 §16.1.3.2 to §16.1.3.4).

#include <algorithm>

#include "agents/pma.h"
#include "agents/pma_data.h"

namespace weft::agents {

using fabric::PortIndex;
using wire::SampleStatus;

namespace {

// Values of CounterSelect (§16.1.3.3).
constexpr std::uint16_t kXmitData = 1;
constexpr std::uint16_t kRcvData = 2;
constexpr std::uint16_t kXmitPackets = 3;
constexpr std::uint16_t kRcvPackets = 4;
constexpr std::uint16_t kXmitWait = 5;

constexpr std::uint8_t kWidth32 = 4;       // CounterWidth: 16 bits, plus 4 for each step
constexpr std::uint8_t kExtended64 = 2;    // ExtendedWidth
constexpr std::uint8_t kAnyMandatory = 1;  // CounterMask: it can count each of the five

[[nodiscard]] std::uint64_t counted(std::uint16_t select, const fabric::PortCounters& counters) {
  switch (select) {
    case kXmitData:
      return counters.xmit_data;
    case kRcvData:
      return counters.rcv_data;
    case kXmitPackets:
      return counters.xmit_packets;
    case kRcvPackets:
      return counters.rcv_packets;
    case kXmitWait:
      return counters.xmit_wait / static_cast<std::uint64_t>(Pma::kTickTime.nanoseconds());
    default:
      return 0;
  }
}

}  // namespace

Instant Pma::deadline() const {
  return schedule_.empty() ? Instant::never() : schedule_.begin()->first;
}

void Pma::handle_timeout(Instant now) {
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const PortIndex own = schedule_.begin()->second;
    schedule_.erase(schedule_.begin());
    Sampling& sampling = samplings_.at(own);
    if (sampling.control.sample_status == SampleStatus::Started) {
      sampling.control.sample_status = SampleStatus::Running;
      sampling.at_start = counters_.read(sampling.port, now);
      schedule_.emplace(sampling.ends, own);
      continue;
    }
    const fabric::PortCounters at_end = counters_.read(sampling.port, now);
    for (std::size_t i = 0; i < kSampleCounters; ++i) {
      const std::uint16_t select = sampling.control.counter_selects[i];
      const std::uint64_t before = counted(select, sampling.at_start);
      const std::uint64_t after = counted(select, at_end);
      sampling.results[i] = after - std::min(before, after);  // a Set may have reset it meanwhile
    }
    sampling.control.sample_status = SampleStatus::Done;
  }
}

std::uint16_t Pma::get_control(Request& request) {
  handle_timeout(request.now);
  const PortNumber select = wire::unpack<wire::PortSamplesControl>(request.data).port_select;
  wire::PortSamplesControl control;
  if (const auto known = samplings_.find(request.own); known != samplings_.end()) {
    control = known->second.control;
  }
  control.op_code = 0;
  control.port_select = select;
  control.tick = kTick;
  control.counter_width = kWidth32;
  control.counter_masks_0_to_9.fill(kAnyMandatory);
  control.counter_masks_10_to_14.fill(kAnyMandatory);
  wire::pack(control, request.data);
  const bool is_one_port = select != kAllPorts && !ports_named(request.own, select).empty();
  return is_one_port ? std::uint16_t{0} : wire::kMadStatusInvalidField;
}

/// Starts a new sampling; if one is in progress, answers with that instead.
std::uint16_t Pma::set_control(Request& request) {
  const auto wanted = wire::unpack<wire::PortSamplesControl>(request.data);
  if (const std::uint16_t status = get_control(request); status != 0) {
    return status;
  }
  Sampling& sampling = samplings_[request.own];
  if (sampling.control.sample_status != SampleStatus::Done) {
    return 0;
  }
  sampling = {};
  sampling.port = ports_named(request.own, wanted.port_select).front();
  sampling.control.sample_status = SampleStatus::Started;
  sampling.control.sample_start = wanted.sample_start;
  sampling.control.sample_interval = wanted.sample_interval;
  sampling.control.tag = wanted.tag;
  sampling.control.counter_selects = wanted.counter_selects;
  sampling.starts = request.now + kTickTime * std::int64_t{wanted.sample_start};
  sampling.ends = sampling.starts + kTickTime * std::int64_t{wanted.sample_interval};
  schedule_.emplace(sampling.starts, request.own);
  return get_control(request);
}

std::uint16_t Pma::get_result(Request& request) {
  handle_timeout(request.now);
  wire::PortSamplesResult result;
  if (const auto known = samplings_.find(request.own); known != samplings_.end()) {
    const Sampling& sampling = known->second;
    result.tag = sampling.control.tag;
    result.sample_status = sampling.control.sample_status;
    std::ranges::transform(sampling.results, result.counters.begin(), saturated<std::uint32_t>);
  }
  answer_with(request.data, result);
  return 0;
}

std::uint16_t Pma::get_result_extended(Request& request) {
  handle_timeout(request.now);
  wire::PortSamplesResultExtended result{.extended_width = kExtended64};
  if (const auto known = samplings_.find(request.own); known != samplings_.end()) {
    result.tag = known->second.control.tag;
    result.sample_status = known->second.control.sample_status;
    result.counters = known->second.results;
  }
  answer_with(request.data, result);
  return 0;
}

}  // namespace weft::agents
