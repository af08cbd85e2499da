#include "host/port_events.h"

#include <utility>

namespace weft::host {

void PortEvents::open(std::uint32_t node) {
  node_ = node;
  for (std::uint32_t hca = 0; hca < hcas_.count(); ++hca) {
    std::vector<ReportedPort>& ports = ports_.emplace_back();
    for (std::uint8_t number = 1; number <= hcas_.descriptions()[hca].port_count; ++number) {
      ports.push_back(apply(hca, PortNumber{number}));
    }
  }
}

void PortEvents::refresh() {
  for (std::uint32_t hca = 0; hca < ports_.size(); ++hca) {
    for (std::uint8_t number = 1; number <= ports_[hca].size(); ++number) {
      const PortNumber port{number};
      const ReportedPort fresh = apply(hca, port);
      const ReportedPort known = std::exchange(ports_[hca][number - 1U], fresh);
      report_changes(hca, port, known, fresh);
    }
  }
}

PortEvents::ReportedPort PortEvents::apply(std::uint32_t hca, PortNumber port) {
  ReportedPort fresh = map_.ask([&](const fabric::TablesView& view) {
    const auto index = view.find_port(fabric::NodeIndex{node_}, port, hca);
    const fabric::PortRecord& record = view.port(*index);
    return ReportedPort{
        .attributes = fabric::attributes_of(record, view.gids(record), view.pkeys(record)),
        .reregistrations = record.reregistrations};
  });
  hcas_.engine(hca).set_port(port, fresh.attributes);
  return fresh;
}

/// The unaffiliated asynchronous events of a port (IBTA vol 1 §11.6.3.3, ibv_get_async_event(3)).
void PortEvents::report_changes(std::uint32_t hca, PortNumber port, const ReportedPort& from,
                                const ReportedPort& to) {
  const hca::PortAttributes& before = from.attributes;
  const hca::PortAttributes& now = to.attributes;
  const bool was_active = before.state == hca::PortState::Active;
  const bool is_active = now.state == hca::PortState::Active;
  const auto report_if = [&](bool changed, hca::AsyncEventType type) {
    if (changed) {
      program_.async_event(
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
