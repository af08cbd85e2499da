#include "fabric/port_details.h"

#include <functional>
#include <numeric>

#include "fabric/counters.h"

namespace weft::fabric {
namespace {

static_assert(sizeof(PortDetails) == 2 * sizeof(PortDetails::BySl) + sizeof(PortDetails::drops));

/// Applies `combine` to each counter of both.
template <class Combine>
void combine_each(PortDetails& to, const PortDetails& with, Combine combine) {
  for (std::size_t sl = 0; sl < PortDetails::kServiceLevels; ++sl) {
    to.xmit_data[sl] = combine(to.xmit_data[sl], with.xmit_data[sl]);
    to.rcv_data[sl] = combine(to.rcv_data[sl], with.rcv_data[sl]);
  }
  for (std::size_t end = 0; end < kPathEnds; ++end) {
    to.drops[end] = combine(to.drops[end], with.drops[end]);
  }
}

void count_data(DetailsOfPorts& ports, PortIndex port, PortDetails::BySl PortDetails::* levels,
                ServiceLevel sl, std::uint64_t words) {
  if (sl != ServiceLevel{} && words != 0) {
    (ports[port].*levels).at(sl.value() % PortDetails::kServiceLevels) += words;
  }
}

[[nodiscard]] std::uint64_t rest(std::uint64_t all, const PortDetails::BySl& levels) {
  return all - std::accumulate(levels.begin() + 1, levels.end(), std::uint64_t{0});
}

}  // namespace

PortDetails& PortDetails::operator+=(const PortDetails& other) {
  combine_each(*this, other, std::plus{});
  return *this;
}

PortDetails& PortDetails::operator-=(const PortDetails& other) {
  combine_each(*this, other, std::minus{});
  return *this;
}

PortDetails details_of(const DetailsOfPorts& ports, PortIndex port) {
  const auto found = ports.find(port);
  return found == ports.end() ? PortDetails{} : found->second;
}

void count_xmit_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words) {
  count_data(ports, port, &PortDetails::xmit_data, sl, words);
}

void count_rcv_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words) {
  count_data(ports, port, &PortDetails::rcv_data, sl, words);
}

void count_drop(PortCounters& counters, DetailsOfPorts& ports, PortIndex port, PathEnd end,
                std::uint64_t packets) {
  if (packets == 0) {
    return;
  }
  switch (drop_counter(end)) {
    case DropCounter::XmitDiscards:
      counters.xmit_discards += packets;
      break;
    case DropCounter::RcvSwitchRelayErrors:
      counters.rcv_switch_relay_errors += packets;
      break;
    case DropCounter::RcvErrors:
      counters.rcv_errors += packets;
      break;
  }
  ports[port].of(end) += packets;
}

PortDetails with_level_0(PortDetails details, const PortCounters& sums) {
  details.xmit_data[0] = rest(sums.xmit_data, details.xmit_data);
  details.rcv_data[0] = rest(sums.rcv_data, details.rcv_data);
  return details;
}

}  // namespace weft::fabric
