#include "daemon/traffic_counters.h"

namespace weft::daemon {
namespace {

/// Policy: reading one port sums up all programs, so results are cached for this time.
constexpr Duration kFreshness = Duration::milliseconds(1);

}  // namespace

void TrafficCounters::resize(std::size_t port_count) {
  ledger_.resize(port_count);
  read_at_.reset();
}

void TrafficCounters::refresh(Instant now) {
  if (!read_at_ || now - *read_at_ >= kFreshness) {
    sum_ = read_all();
    read_at_ = now;
  }
}

fabric::PortCounters TrafficCounters::read(fabric::PortIndex port, Instant now) {
  refresh(now);
  return sum_.ports.at(port.value());
}

/// Sets the counters to `value` as of the last reading; later counts are added to it.
void TrafficCounters::set(fabric::PortIndex port, const fabric::PortCounters& value, Instant now) {
  refresh(now);
  fabric::PortCounters& known = sum_.ports.at(port.value());
  ledger_.set(port, known, value);
  known = value;
}

fabric::PortDetails TrafficCounters::read_details(fabric::PortIndex port, Instant now) {
  refresh(now);
  return ledger_.details(sum_, port);
}

void TrafficCounters::set_details(fabric::PortIndex port, const fabric::PortDetails& value,
                                  Instant now) {
  ledger_.set_details(port, read_details(port, now), value);
}

}  // namespace weft::daemon
