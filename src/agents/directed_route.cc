#include "agents/directed_route.h"

#include "fabric/walk.h"

namespace weft::agents {

using carriage::DirectedSmp;
using carriage::SmiPhase;
using carriage::SmiStep;
using fabric::PortIndex;
using fabric::PortRecord;
using fabric::TablesBuilder;

namespace {

/// The step through port `number` of the node: on a switch any port but 0, on an HCA only the port
/// at which the SMP is.
[[nodiscard]] SmiStep out_of(const TablesBuilder& tables, PortIndex at, std::byte number) {
  const PortRecord& port = tables.port(at);
  const PortNumber wanted{std::to_integer<std::uint8_t>(number)};
  if (!port.is_switch_port()) {
    return wanted == port.number ? SmiStep{.kind = SmiStep::Kind::Out, .egress = at} : SmiStep{};
  }
  const PortIndex egress = fabric::port_of_switch(tables, port.node, wanted);
  return wanted != PortNumber{} && egress != fabric::kNoPort
             ? SmiStep{.kind = SmiStep::Kind::Out, .egress = egress}
             : SmiStep{};
}

[[nodiscard]] SmiStep outbound_step(const TablesBuilder& tables, DirectedSmp& smp) {
  const std::uint8_t count = smp.header.hop_count;
  std::uint8_t& pointer = smp.header.hop_pointer;
  const PortRecord& port = tables.port(smp.at);
  const auto next_port = [&] { return smp.mad[wire::kSmpInitialPathAt + pointer]; };
  const auto record_ingress = [&] {
    smp.mad[wire::kSmpReturnPathAt + pointer] = static_cast<std::byte>(port.number.value());
  };
  if (smp.phase == SmiPhase::AfterLidRoute) {  // C14-9:4
    return pointer == count + 1 ? SmiStep{.kind = SmiStep::Kind::Arrived} : SmiStep{};
  }
  if (smp.phase == SmiPhase::Start && count != 0) {  // C14-9:1
    if (pointer != 0) {
      return {};
    }
    pointer = 1;
    return out_of(tables, smp.at, next_port());
  }
  if (pointer != 0 && pointer < count) {  // C14-9:2: the path continues, so this must be a switch
    record_ingress();
    ++pointer;
    return port.is_switch_port() ? out_of(tables, smp.at, next_port()) : SmiStep{};
  }
  if (pointer != count) {  // C14-9:5
    return {};
  }
  if (count != 0) {  // C14-9:3
    record_ingress();
  }
  ++pointer;
  if (smp.route.dr_dlid.is_permissive()) {
    return {.kind = SmiStep::Kind::Arrived};
  }
  return port.is_switch_port() ? SmiStep{.kind = SmiStep::Kind::ByLid, .dlid = smp.route.dr_dlid}
                               : SmiStep{};
}

[[nodiscard]] SmiStep returning_step(const TablesBuilder& tables, DirectedSmp& smp) {
  const std::uint8_t count = smp.header.hop_count;
  std::uint8_t& pointer = smp.header.hop_pointer;
  const PortRecord& port = tables.port(smp.at);
  const auto next_port = [&] { return smp.mad[wire::kSmpReturnPathAt + pointer]; };
  if (smp.phase == SmiPhase::AfterLidRoute) {  // C14-13:4
    return pointer == 0 ? SmiStep{.kind = SmiStep::Kind::Arrived} : SmiStep{};
  }
  if (smp.phase == SmiPhase::Start) {  // C14-13:1
    if (pointer != count + 1) {
      return {};
    }
    if (count != 0) {
      --pointer;
      return out_of(tables, smp.at, next_port());
    }
  } else if (pointer >= 2 && pointer <= count) {  // C14-13:2
    --pointer;
    return port.is_switch_port() ? out_of(tables, smp.at, next_port()) : SmiStep{};
  }
  if (pointer != 1) {  // C14-13:5
    return {};
  }
  pointer = 0;  // C14-13:3
  if (smp.route.dr_slid.is_permissive()) {
    return {.kind = SmiStep::Kind::Arrived};
  }
  return port.is_switch_port() ? SmiStep{.kind = SmiStep::Kind::ByLid, .dlid = smp.route.dr_slid}
                               : SmiStep{};
}

}  // namespace

SmiStep next_step(const TablesBuilder& tables, DirectedSmp& smp) {
  return smp.header.direction ? returning_step(tables, smp) : outbound_step(tables, smp);
}

}  // namespace weft::agents
