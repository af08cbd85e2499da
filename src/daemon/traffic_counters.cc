#include "daemon/traffic_counters.h"

#include <utility>

namespace weft::daemon {
namespace {

/// Policy: reading one port means to add up all, so who asks for many gets them of one moment.
constexpr Duration kFreshness = Duration::milliseconds(1);

}  // namespace

void TrafficCounters::begin(std::size_t port_count, Reader reader) {
  ledger_.emplace(port_count);
  reader_ = std::move(reader);
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

/// What was counted since the reading that the caller had comes on top of `value`.
void TrafficCounters::set(fabric::PortIndex port, const fabric::PortCounters& value, Instant now) {
  refresh(now);
  fabric::PortCounters& known = sum_.ports.at(port.value());
  ledger_->set(port, known, value);
  known = value;
}

void TrafficCounters::count_link_downed(fabric::PortIndex port) {
  if (ledger_) {
    ++ledger_->own(port).link_downed;
    read_at_.reset();
  }
}

}  // namespace weft::daemon
