#include "host/port_events.h"

#include <utility>

#include "verbs/port_events.h"

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

void PortEvents::report_changes(std::uint32_t hca, PortNumber port, const ReportedPort& from,
                                const ReportedPort& to) {
  const auto report = [&](hca::AsyncEventType type) {
    program_.async_event(
        hca, {.type = type, .qp = nullptr, .cq = nullptr, .srq = nullptr, .port = port});
  };
  for (const hca::AsyncEventType type : verbs::PortEvents{from.attributes, to.attributes}) {
    report(type);
  }
  if (from.reregistrations != to.reregistrations) {
    report(hca::AsyncEventType::ClientReregister);
  }
}

}  // namespace weft::host
