// Pma: the breakdown of a port's counters (IBTA vol 1 §16.1.4). Bit n of CounterSelect selects the
// n-th counter.

#include <initializer_list>
#include <tuple>

#include "agents/pma.h"
#include "agents/pma_data.h"
#include "wire/mad/port_details.h"

namespace weft::agents {

using fabric::PathEnd;
using fabric::PortDetails;
using fabric::PortIndex;

namespace {

[[nodiscard]] bool selects(std::uint16_t counter_select, unsigned counter) {
  return (counter_select >> counter & 1U) != 0;
}

/// Sets the selected counters of dropped packets.
void write_drops(PortDetails& value, std::uint16_t counter_select,
                 std::initializer_list<std::tuple<unsigned, PathEnd, std::uint64_t>> counters) {
  for (const auto& [counter, end, to] : counters) {
    if (selects(counter_select, counter)) {
      value.of(end) = to;
    }
  }
}

}  // namespace

PortDetails Pma::details_of(std::span<const PortIndex> ports, Instant now) {
  PortDetails sum;
  for (const PortIndex port : ports) {
    sum += counters_.read_details(port, now);
  }
  return sum;
}

/// Applies `write` to the selected counters of each named port.
template <class Wanted, class Write>
void Pma::write_details(const Request& request, const Wanted& wanted, Write write) {
  for (const PortIndex port : ports_named(request.own, wanted.port_select)) {
    PortDetails value = counters_.read_details(port, request.now);
    write(value);
    counters_.set_details(port, value, request.now);
  }
}

std::uint16_t Pma::get_rcv_errors(Request& request) {
  const auto asked = taken_from<wire::PortRcvErrorDetails>(request.data);
  const std::vector<PortIndex> ports = ports_named(request.own, asked.port_select);
  const PortDetails sum = details_of(ports, request.now);
  const auto count = [&](PathEnd end) { return saturated<std::uint16_t>(sum.of(end)); };
  answer_with(request.data,
              wire::PortRcvErrorDetails{.port_select = asked.port_select,
                                        .counter_select = asked.counter_select,
                                        .port_local_physical_errors = count(PathEnd::Damaged),
                                        .port_malformed_packet_errors = count(PathEnd::Malformed),
                                        .port_dlid_mapping_errors = count(PathEnd::DlidMapping),
                                        .port_looping_errors = count(PathEnd::Looping)});
  return ports.empty() ? wire::kMadStatusInvalidField : std::uint16_t{0};
}

std::uint16_t Pma::set_rcv_errors(Request& request) {
  const auto wanted = taken_from<wire::PortRcvErrorDetails>(request.data);
  write_details(request, wanted, [&](PortDetails& value) {
    write_drops(value, wanted.counter_select,
                {
                    {0, PathEnd::Damaged,     wanted.port_local_physical_errors  },
                    {1, PathEnd::Malformed,   wanted.port_malformed_packet_errors},
                    {3, PathEnd::DlidMapping, wanted.port_dlid_mapping_errors    },
                    {5, PathEnd::Looping,     wanted.port_looping_errors         },
    });
  });
  return get_rcv_errors(request);
}

std::uint16_t Pma::get_discards(Request& request) {
  const auto asked = taken_from<wire::PortXmitDiscardDetails>(request.data);
  const std::vector<PortIndex> ports = ports_named(request.own, asked.port_select);
  const PortDetails sum = details_of(ports, request.now);
  const auto count = [&](PathEnd end) { return saturated<std::uint16_t>(sum.of(end)); };
  answer_with(request.data,
              wire::PortXmitDiscardDetails{
                  .port_select = asked.port_select,
                  .counter_select = asked.counter_select,
                  .port_inactive_discards = count(PathEnd::PortInactive),
                  .port_neighbor_mtu_discards = count(PathEnd::NeighborMtu),
                  .port_sw_lifetime_limit_discards = count(PathEnd::LifetimeLimit),
                  .port_sw_hoq_lifetime_limit_discards = count(PathEnd::HeadOfQueueLimit)});
  return ports.empty() ? wire::kMadStatusInvalidField : std::uint16_t{0};
}

std::uint16_t Pma::set_discards(Request& request) {
  const auto wanted = taken_from<wire::PortXmitDiscardDetails>(request.data);
  write_details(request, wanted, [&](PortDetails& value) {
    write_drops(value, wanted.counter_select,
                {
                    {0, PathEnd::PortInactive,     wanted.port_inactive_discards             },
                    {1, PathEnd::NeighborMtu,      wanted.port_neighbor_mtu_discards         },
                    {2, PathEnd::LifetimeLimit,    wanted.port_sw_lifetime_limit_discards    },
                    {3, PathEnd::HeadOfQueueLimit, wanted.port_sw_hoq_lifetime_limit_discards},
    });
  });
  return get_discards(request);
}

template <PortDetails::BySl PortDetails::* kLevels>
std::uint16_t Pma::get_data_sl(Request& request) {
  const auto asked = taken_from<wire::PortDataSl>(request.data);
  const std::vector<PortIndex> ports = ports_named(request.own, asked.port_select);
  const PortDetails sum = details_of(ports, request.now);
  wire::PortDataSl answer{.port_select = asked.port_select, .counter_select = asked.counter_select};
  std::ranges::transform(sum.*kLevels, answer.data.begin(), saturated<std::uint32_t>);
  answer_with(request.data, answer);
  return ports.empty() ? wire::kMadStatusInvalidField : std::uint16_t{0};
}

template <PortDetails::BySl PortDetails::* kLevels>
std::uint16_t Pma::set_data_sl(Request& request) {
  const auto wanted = taken_from<wire::PortDataSl>(request.data);
  write_details(request, wanted, [&](PortDetails& value) {
    for (unsigned sl = 0; sl < PortDetails::kServiceLevels; ++sl) {
      std::uint64_t& counter = (value.*kLevels).at(sl);
      counter = selects(wanted.counter_select, sl) ? wanted.data.at(sl) : counter;
    }
  });
  return get_data_sl<kLevels>(request);
}

template std::uint16_t Pma::get_data_sl<&PortDetails::xmit_data>(Request& request);
template std::uint16_t Pma::set_data_sl<&PortDetails::xmit_data>(Request& request);
template std::uint16_t Pma::get_data_sl<&PortDetails::rcv_data>(Request& request);
template std::uint16_t Pma::set_data_sl<&PortDetails::rcv_data>(Request& request);

}  // namespace weft::agents
