// The ports of this process's HCAs as the tables have them, and the events of both.

#include <utility>

#include "host/process_impl.h"

namespace weft::host {
namespace {

[[nodiscard]] hca::PortAttributes attributes_of(const fabric::TablesView& view,
                                                const fabric::PortRecord& port) {
  const auto gids = view.gids(port);
  const auto pkeys = view.pkeys(port);
  return {
      .state = static_cast<hca::PortState>(port.state),
      .lid = port.lid,
      .lmc = port.lmc,
      .sm_lid = port.sm_lid,
      .sm_sl = port.sm_sl,
      .max_mtu = port.max_mtu,
      .active_mtu = port.active_mtu,
      .active_width = port.active_width,
      .active_speed = port.active_speed,
      .gids = {gids.begin(),  gids.end() },
      .pkeys = {pkeys.begin(), pkeys.end()}
  };
}

}  // namespace

/// The daemon's connection manager takes the first packet for the RTU that it overtook (R-RVT-16);
/// other processes may have handles of a target.
void HcaEventRelay::async_event(const hca::AsyncEvent& event) {
  if (event.type == hca::AsyncEventType::CommunicationEstablished) {
    process_.connection.post(uabi::CommunicationEstablished{.qpn = event.qp->number()});
  }
  if (event.qp != nullptr && event.qp->type() == hca::QpType::XrcTarget) {
    process_.shared_targets.notify_openers(event);
  }
  events_.async_event(hca_, event);
}

void Process::Impl::refresh_ports(bool tell) {
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    HcaSlot& slot = *slots[i];
    for (std::uint8_t number = 1; number <= slot.ports.size(); ++number) {
      const ReportedPort fresh = map.ask([&](const fabric::TablesView& view) {
        const auto index = view.find_port(fabric::NodeIndex{self.node}, PortNumber{number}, i);
        const fabric::PortRecord& record = view.port(*index);
        return ReportedPort{.attributes = attributes_of(view, record),
                            .reregistrations = record.reregistrations};
      });
      const ReportedPort known = std::exchange(slot.ports[number - 1U], fresh);
      slot.engine->set_port(PortNumber{number}, fresh.attributes);
      if (tell) {
        report_port_changes(i, PortNumber{number}, known, fresh);
      }
    }
  }
}

/// The unaffiliated asynchronous events of a port (IBTA vol 1 §11.6.3.3, ibv_get_async_event(3)).
void Process::Impl::report_port_changes(std::uint32_t hca, PortNumber port,
                                        const ReportedPort& from, const ReportedPort& to) {
  const hca::PortAttributes& before = from.attributes;
  const hca::PortAttributes& now = to.attributes;
  const bool was_active = before.state == hca::PortState::Active;
  const bool is_active = now.state == hca::PortState::Active;
  const auto report_if = [&](bool changed, hca::AsyncEventType type) {
    if (changed) {
      events.async_event(
          hca, {.type = type, .qp = nullptr, .cq = nullptr, .srq = nullptr, .port = port});
    }
  };
  report_if(was_active && !is_active, hca::AsyncEventType::PortError);
  report_if(before.lid != now.lid || before.lmc != now.lmc, hca::AsyncEventType::LidChange);
  report_if(before.pkeys != now.pkeys, hca::AsyncEventType::PKeyChange);
  report_if(before.gids != now.gids, hca::AsyncEventType::GidChange);
  report_if(before.sm_lid != now.sm_lid || before.sm_sl != now.sm_sl,
            hca::AsyncEventType::SmChange);
  report_if(!was_active && is_active, hca::AsyncEventType::PortActive);
  report_if(from.reregistrations != to.reregistrations, hca::AsyncEventType::ClientReregister);
}

}  // namespace weft::host
