#include "agents/pma.h"

#include <algorithm>

#include "agents/pma_data.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/port_counters.h"

namespace weft::agents {

using fabric::PortIndex;
using wire::PortCounterExtendedSelect;
using wire::PortCounterExtendedSelect2;
using wire::PortCounterSelect;

namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::MadHeader>;
constexpr std::uint8_t kResponseTime = 18;  // as an exponent: about a second, policy

[[nodiscard]] std::uint64_t ticks(std::uint64_t nanoseconds) {
  return nanoseconds / static_cast<std::uint64_t>(Pma::kTickTime.nanoseconds());
}
[[nodiscard]] std::uint64_t nanoseconds(std::uint64_t ticks) {
  return ticks * static_cast<std::uint64_t>(Pma::kTickTime.nanoseconds());
}

/// Writes the counters that CounterSelect2 selects.
void write_extended_errors(const wire::PortCountersExtended& wanted, fabric::PortCounters& value) {
  const auto write = [&](PortCounterExtendedSelect2 select, std::uint64_t& counter,
                         std::uint64_t to) {
    counter = has(wanted.counter_select2, select) ? to : counter;
  };
  using enum PortCounterExtendedSelect2;
  write(LinkDowned, value.link_downed, wanted.link_downed_counter);
  write(RcvErrors, value.rcv_errors, wanted.port_rcv_errors);
  write(RcvSwitchRelayErrors, value.rcv_switch_relay_errors, wanted.port_rcv_switch_relay_errors);
  write(XmitDiscards, value.xmit_discards, wanted.port_xmit_discards);
  write(XmitWait, value.xmit_wait, nanoseconds(wanted.port_xmit_wait));
}

}  // namespace

// Adding an attribute is adding a row.
constexpr std::array<Pma::Attribute, 10> Pma::kAttributes = {
    {
     {wire::PerfAttribute::ClassPortInfo, &Pma::get_class_port_info, nullptr},
     {wire::PerfAttribute::PortSamplesControl, &Pma::get_control, &Pma::set_control},
     {wire::PerfAttribute::PortSamplesResult, &Pma::get_result, nullptr},
     {wire::PerfAttribute::PortCounters, &Pma::get_counters, &Pma::set_counters},
     {wire::PerfAttribute::PortCountersExtended, &Pma::get_extended, &Pma::set_extended},
     {wire::PerfAttribute::PortSamplesResultExtended, &Pma::get_result_extended, nullptr},
     {wire::PerfAttribute::PortRcvErrorDetails, &Pma::get_rcv_errors, &Pma::set_rcv_errors},
     {wire::PerfAttribute::PortXmitDiscardDetails, &Pma::get_discards, &Pma::set_discards},
     {wire::PerfAttribute::PortXmitDataSl, &Pma::get_data_sl<&fabric::PortDetails::xmit_data>,
         &Pma::set_data_sl<&fabric::PortDetails::xmit_data>},
     {wire::PerfAttribute::PortRcvDataSl, &Pma::get_data_sl<&fabric::PortDetails::rcv_data>,
         &Pma::set_data_sl<&fabric::PortDetails::rcv_data>},
     }
};

Pma::Pma(const fabric::TablesBuilder& tables, fabric::CounterSource& counters)
    : tables_(tables), counters_(counters) {}

bool Pma::handle(PortIndex own, mad::MadBytes& mad, Instant now) {
  auto header = wire::unpack<wire::MadHeader>(std::span{mad}.first<kHeaderBytes>());
  const bool is_set = header.method == wire::MadMethod::Set;
  if (!is_set && header.method != wire::MadMethod::Get) {
    return false;
  }
  Request request{.own = own,
                  .is_set = is_set,
                  .now = now,
                  .data = std::span{mad}.subspan<wire::kPerfDataAt, wire::kPerfDataBytes>()};
  header.status = serve(request, header);
  header.method = wire::MadMethod::GetResp;
  wire::pack(header, std::span{mad}.first<kHeaderBytes>());
  return true;
}

std::uint16_t Pma::serve(Request& request, const wire::MadHeader& header) {
  if (header.base_version != wire::kMadBaseVersion || header.class_version != 1) {
    return wire::kMadStatusBadVersion;
  }
  const auto* const row = std::ranges::find(
      kAttributes, static_cast<wire::PerfAttribute>(header.attribute_id), &Attribute::id);
  const Handler handler =
      row == kAttributes.end() ? nullptr : (request.is_set ? row->set : row->get);
  if (handler == nullptr) {
    return wire::kMadStatusMethodAttributeUnsupported;
  }
  return header.attribute_modifier == 0 ? (this->*handler)(request) : wire::kMadStatusInvalidField;
}

/// The ports that PortSelect names, all ports of the node for 0xFF; empty if there is no such port.
/// Port 0 of a switch has no link and counts nothing, but can be queried. On an HCA, whose ports
/// are numbered from 1, it means the port that was queried: `perfquery LID` sends 0, and ConnectX
/// HCAs answer it.
std::vector<PortIndex> Pma::ports_named(PortIndex own, PortNumber select) const {
  const fabric::PortRecord& record = tables_.port(own);
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t offset = select.value();
  if (record.is_switch_port()) {
    const fabric::NodeRecord& node = tables_.node(record.node);
    first = node.first_port.value();
    count = node.port_count;
  } else {
    const fabric::HcaRecord& hca = tables_.hcas()[record.hca.value()];
    first = hca.first_port.value();
    count = hca.port_count;
    offset = select == PortNumber{} ? own.value() - first : offset - 1;
  }
  std::vector<PortIndex> ports;
  if (select == kAllPorts) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ports.emplace_back(first + i);
    }
  } else if (offset < count) {
    ports.emplace_back(first + offset);
  }
  return ports;
}

fabric::PortCounters Pma::sum_of(std::span<const PortIndex> ports, Instant now) {
  fabric::PortCounters sum;
  for (const PortIndex port : ports) {
    sum += counters_.read(port, now);
  }
  return sum;
}

std::uint16_t Pma::get_class_port_info(Request& request) {
  answer_with(
      request.data,
      wire::ClassPortInfo{
          .capability_mask = static_cast<std::uint16_t>(
              wire::kPerfAllPortSelect | wire::kPerfExtendedWidth | wire::kPerfPortXmitWait),
          .capability_mask2 = has_additional_counters_ ? wire::kPerfAdditionalExtendedCounters : 0,
          .resp_time_value = kResponseTime});
  return 0;
}

std::uint16_t Pma::get_counters(Request& request) {
  const auto asked = taken_from<wire::PortCounters>(request.data);
  const std::vector<PortIndex> ports = ports_named(request.own, asked.port_select);
  const fabric::PortCounters sum = sum_of(ports, request.now);
  answer_with(request.data,
              wire::PortCounters{.port_select = asked.port_select,
                                 .counter_select = asked.counter_select,
                                 .link_downed_counter = saturated<std::uint8_t>(sum.link_downed),
                                 .port_rcv_errors = saturated<std::uint16_t>(sum.rcv_errors),
                                 .port_rcv_switch_relay_errors =
                                     saturated<std::uint16_t>(sum.rcv_switch_relay_errors),
                                 .port_xmit_discards = saturated<std::uint16_t>(sum.xmit_discards),
                                 .counter_select2 = asked.counter_select2,
                                 .port_xmit_data = saturated<std::uint32_t>(sum.xmit_data),
                                 .port_rcv_data = saturated<std::uint32_t>(sum.rcv_data),
                                 .port_xmit_packets = saturated<std::uint32_t>(sum.xmit_packets),
                                 .port_rcv_packets = saturated<std::uint32_t>(sum.rcv_packets),
                                 .port_xmit_wait = saturated<std::uint32_t>(ticks(sum.xmit_wait))});
  return ports.empty() ? wire::kMadStatusInvalidField : std::uint16_t{0};
}

std::uint16_t Pma::set_counters(Request& request) {
  const auto wanted = taken_from<wire::PortCounters>(request.data);
  for (const PortIndex port : ports_named(request.own, wanted.port_select)) {
    fabric::PortCounters value = counters_.read(port, request.now);
    const auto write = [&](PortCounterSelect select, std::uint64_t& counter, std::uint64_t to) {
      counter = has(wanted.counter_select, select) ? to : counter;
    };
    write(PortCounterSelect::LinkDowned, value.link_downed, wanted.link_downed_counter);
    write(PortCounterSelect::RcvErrors, value.rcv_errors, wanted.port_rcv_errors);
    write(PortCounterSelect::RcvSwitchRelayErrors, value.rcv_switch_relay_errors,
          wanted.port_rcv_switch_relay_errors);
    write(PortCounterSelect::XmitDiscards, value.xmit_discards, wanted.port_xmit_discards);
    write(PortCounterSelect::XmitData, value.xmit_data, wanted.port_xmit_data);
    write(PortCounterSelect::RcvData, value.rcv_data, wanted.port_rcv_data);
    write(PortCounterSelect::XmitPackets, value.xmit_packets, wanted.port_xmit_packets);
    write(PortCounterSelect::RcvPackets, value.rcv_packets, wanted.port_rcv_packets);
    if ((wanted.counter_select2 & wire::kSelectPortXmitWait) != 0) {
      value.xmit_wait = nanoseconds(wanted.port_xmit_wait);
    }
    counters_.set(port, value, request.now);
  }
  return get_counters(request);
}

std::uint16_t Pma::get_extended(Request& request) {
  const auto asked = taken_from<wire::PortCountersExtended>(request.data);
  const std::vector<PortIndex> ports = ports_named(request.own, asked.port_select);
  const fabric::PortCounters sum = sum_of(ports, request.now);
  answer_with(request.data, wire::PortCountersExtended{
                                .port_select = asked.port_select,
                                .counter_select = asked.counter_select,
                                .counter_select2 = asked.counter_select2,
                                .port_xmit_data = sum.xmit_data,
                                .port_rcv_data = sum.rcv_data,
                                .port_xmit_packets = sum.xmit_packets,
                                .port_rcv_packets = sum.rcv_packets,
                                .port_unicast_xmit_packets = sum.unicast_xmit_packets,
                                .port_unicast_rcv_packets = sum.unicast_rcv_packets,
                                .port_multicast_xmit_packets = sum.multicast_xmit_packets,
                                .port_multicast_rcv_packets = sum.multicast_rcv_packets,
                                .link_downed_counter = sum.link_downed,
                                .port_rcv_errors = sum.rcv_errors,
                                .port_rcv_switch_relay_errors = sum.rcv_switch_relay_errors,
                                .port_xmit_discards = sum.xmit_discards,
                                .port_xmit_wait = ticks(sum.xmit_wait)});
  return ports.empty() ? wire::kMadStatusInvalidField : std::uint16_t{0};
}

std::uint16_t Pma::set_extended(Request& request) {
  const auto wanted = taken_from<wire::PortCountersExtended>(request.data);
  for (const PortIndex port : ports_named(request.own, wanted.port_select)) {
    fabric::PortCounters value = counters_.read(port, request.now);
    const auto write = [&](PortCounterExtendedSelect select, std::uint64_t& counter,
                           std::uint64_t to) {
      counter = has(wanted.counter_select, select) ? to : counter;
    };
    using enum PortCounterExtendedSelect;
    write(XmitData, value.xmit_data, wanted.port_xmit_data);
    write(RcvData, value.rcv_data, wanted.port_rcv_data);
    write(XmitPackets, value.xmit_packets, wanted.port_xmit_packets);
    write(RcvPackets, value.rcv_packets, wanted.port_rcv_packets);
    write(UnicastXmitPackets, value.unicast_xmit_packets, wanted.port_unicast_xmit_packets);
    write(UnicastRcvPackets, value.unicast_rcv_packets, wanted.port_unicast_rcv_packets);
    write(MulticastXmitPackets, value.multicast_xmit_packets, wanted.port_multicast_xmit_packets);
    write(MulticastRcvPackets, value.multicast_rcv_packets, wanted.port_multicast_rcv_packets);
    write_extended_errors(wanted, value);
    counters_.set(port, value, request.now);
  }
  return get_extended(request);
}

}  // namespace weft::agents
