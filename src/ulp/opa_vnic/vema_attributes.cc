// What the agent does with each attribute (R-VN-5).

#include <algorithm>
#include <iterator>
#include <span>

#include "ulp/opa_vnic/vema_port.h"
#include "wire/opa/mac_messages.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::opa_vnic {

using wire::MadMethod;
using wire::VemaAttribute;
using wire::VemaEvent;

/// An attribute, and who gets and sets it; null: that method does not exist.
struct VemaPort::Row {
  VemaAttribute attribute;
  Handler get;
  Handler set;
};

const VemaPort::Row VemaPort::kAttributes[] = {
    {VemaAttribute::ClassPortInfo,   &VemaPort::get_class_port_info,  &VemaPort::set_class_port_info},
    {VemaAttribute::VeswPortInfo,    &VemaPort::get_vesw_port_info,   &VemaPort::set_vesw_port_info },
    {VemaAttribute::MacTable,        &VemaPort::get_mac_entries,      &VemaPort::set_mac_entries    },
    {VemaAttribute::UnicastMacs,     &VemaPort::get_mac_list,         nullptr                       },
    {VemaAttribute::MulticastMacs,   &VemaPort::get_mac_list,         nullptr                       },
    {VemaAttribute::DeleteVesw,      nullptr,                         &VemaPort::set_delete_vesw    },
    {VemaAttribute::SummaryCounters, &VemaPort::get_summary_counters, nullptr                       },
    {VemaAttribute::ErrorCounters,   &VemaPort::get_error_counters,   nullptr                       },
};

namespace {

constexpr std::uint8_t kResponseTime = 18;  // 1.07 s

/// Unpacks the attribute at the beginning of the MAD's data.
template <wire::WireType T>
[[nodiscard]] T read(const wire::VemaMad& mad) {
  return wire::unpack<T>(std::span{mad.data}.template first<wire::kSizeOf<T>>());
}

template <wire::WireType T>
void write(const T& value, wire::VemaMad& mad) {
  wire::pack(value, std::span{mad.data}.template first<wire::kSizeOf<T>>());
}

}  // namespace

VemaPort::Handler VemaPort::handler_of(const wire::VemaMad& request) const {
  const MadMethod method = request.header.method;
  const auto row = std::ranges::find(kAttributes, request.attribute(), &Row::attribute);
  if (row == std::end(kAttributes)) {
    return nullptr;
  }
  return method == MadMethod::Get ? row->get : method == MadMethod::Set ? row->set : nullptr;
}

wire::VemaMad VemaPort::answer(const wire::VemaMad& request, Instant now) {
  Exchange exchange{
      .request = request,
      .answer = {.header = request.header, .rmpp = request.rmpp, .oui = request.oui, .data = {}},
      .now = now
  };
  wire::MadHeader& header = exchange.answer.header;
  header.method = MadMethod::GetResp;
  header.status = 0;
  if (request.header.base_version != wire::kOpaMadVersion ||
      request.header.class_version != wire::kOpaMadVersion) {
    header.status = wire::kMadStatusBadVersion;
  } else if (const Handler handle = handler_of(request)) {
    (this->*handle)(exchange);
  } else {
    header.status = wire::kMadStatusMethodAttributeUnsupported;
  }
  return exchange.answer;
}

void VemaPort::get_class_port_info(Exchange& exchange) {
  wire::OpaClassPortInfo info = class_port_info_;
  info.base_version = wire::kOpaMadVersion;
  info.class_version = wire::kOpaMadVersion;
  info.capability_mask =
      static_cast<std::uint16_t>(wire::OpaClassPortInfo::kSendsTraps | kMaxVportNumbers << 8);
  info.capability_mask2 = 0;
  info.resp_time_value = kResponseTime;
  write(info, exchange.answer);
}

void VemaPort::set_class_port_info(Exchange& exchange) {
  class_port_info_ = read<wire::OpaClassPortInfo>(exchange.request);
  get_class_port_info(exchange);
}

void VemaPort::get_vesw_port_info(Exchange& exchange) {
  VirtualPort* const vport = find_vport(exchange.request.vport());
  if (vport == nullptr) {
    return write(power_on_info(wire::EthLinkStatus::None), exchange.answer);
  }
  // Only a manager's own Get shows that it knows the state; what it sets may be older.
  if (exchange.request.header.method == MadMethod::Get) {
    vport->traps().settle(VemaEvent::LinkStatusChanged);
  }
  write(vport->info(), exchange.answer);
}

void VemaPort::set_vesw_port_info(Exchange& exchange) {
  VirtualPort* vport = find_vport(exchange.request.vport());
  if (vport == nullptr) {
    vport = add_vport(exchange.request.vport());
  }
  if (vport == nullptr) {
    exchange.answer.header.status = wire::kMadStatusInvalidField;
    return;
  }
  vport->set_info(read<wire::VeswPortInfo>(exchange.request), exchange.now);
  device_.interface_changed(*vport);
  get_vesw_port_info(exchange);
}

void VemaPort::get_mac_entries(Exchange& exchange) {
  const auto header = read<wire::MacTableHeader>(exchange.request);
  VirtualPort* const vport = find_vport(exchange.request.vport());
  if (vport == nullptr || !wire::is_valid_block(header)) {
    exchange.answer.header.status = wire::kMadStatusInvalidField;
    return;
  }
  copy_bytes(exchange.answer.data,
             wire::to_data(vport->mac_table().block(header.offset, header.entries)));
}

void VemaPort::set_mac_entries(Exchange& exchange) {
  VirtualPort* const vport = find_vport(exchange.request.vport());
  const auto block = wire::parse_mac_table(exchange.request.data);
  if (vport == nullptr || !block) {
    exchange.answer.header.status = wire::kMadStatusInvalidField;
    return;
  }
  if (!vport->set_mac_block(*block)) {
    exchange.answer.header.status = wire::kMadStatusMethodAttributeUnsupported;
  }
  get_mac_entries(exchange);
}

void VemaPort::set_delete_vesw(Exchange& exchange) {
  VirtualPort* const vport = find_vport(exchange.request.vport());
  if (vport == nullptr) {
    exchange.answer.header.status = wire::kMadStatusInvalidField;
    return;
  }
  vport->reset(exchange.now);
  device_.interface_changed(*vport);
}

void VemaPort::get_mac_list(Exchange& exchange) {
  VirtualPort* const vport = find_vport(exchange.request.vport());
  if (vport == nullptr) {
    exchange.answer.header.status = wire::kMadStatusInvalidField;
    return;
  }
  const auto wanted = read<wire::MacListHeader>(exchange.request);
  const bool is_unicast = exchange.request.attribute() == VemaAttribute::UnicastMacs;
  vport->traps().settle(is_unicast ? VemaEvent::UnicastMacsChanged
                                   : VemaEvent::MulticastMacsChanged);
  copy_bytes(exchange.answer.data,
             wire::to_data(is_unicast ? vport->unicast_macs(wanted.start, wanted.in_message)
                                      : vport->multicast_macs(wanted.start, wanted.in_message)));
}

void VemaPort::get_summary_counters(Exchange& exchange) {
  if (VirtualPort* const vport = find_vport(exchange.request.vport())) {
    return write(vport->summary_counters(), exchange.answer);
  }
  exchange.answer.header.status = wire::kMadStatusInvalidField;
}

void VemaPort::get_error_counters(Exchange& exchange) {
  if (VirtualPort* const vport = find_vport(exchange.request.vport())) {
    return write(vport->error_counters(), exchange.answer);
  }
  exchange.answer.header.status = wire::kMadStatusInvalidField;
}

}  // namespace weft::opa_vnic
