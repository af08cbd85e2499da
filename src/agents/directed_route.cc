// ManagementNetwork: directed route SMPs, hop by hop by the rules of each node's SMI (IBTA vol 1
// §14.2.2, C14-9 outbound and C14-13 returning).

#include <span>

#include "agents/management_network.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;

namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SmpDirectedHeader>;
constexpr std::uint8_t kMaxHopCount = wire::kSmpPathEntries - 1;

}  // namespace

/// A node's port by the number that a path names: of a switch any but port 0, of an HCA the one
/// that it is at.
ManagementNetwork::Step ManagementNetwork::out_of(PortIndex at, std::byte number) const {
  const PortRecord& port = tables_.port(at);
  const PortNumber wanted{std::to_integer<std::uint8_t>(number)};
  if (!port.is_switch_port()) {
    return wanted == port.number ? Step{.kind = Step::Kind::Out, .egress = at} : Step{};
  }
  const PortIndex egress = agents_.port_of_switch(port.node, wanted);
  return wanted != PortNumber{} && egress != fabric::kNoPort
             ? Step{.kind = Step::Kind::Out, .egress = egress}
             : Step{};
}

ManagementNetwork::Step ManagementNetwork::outbound_step(Directed& smp) const {
  const std::uint8_t count = smp.header.hop_count;
  std::uint8_t& pointer = smp.header.hop_pointer;
  const PortRecord& port = tables_.port(smp.at);
  const auto next_port = [&] { return smp.mad[wire::kSmpInitialPathAt + pointer]; };
  const auto note_ingress = [&] {
    smp.mad[wire::kSmpReturnPathAt + pointer] = static_cast<std::byte>(port.number.value());
  };
  if (smp.phase == Phase::Landed) {  // C14-9:4
    return pointer == count + 1 ? Step{.kind = Step::Kind::Arrived} : Step{};
  }
  if (smp.phase == Phase::Start && count != 0) {  // C14-9:1
    if (pointer != 0) {
      return {};
    }
    pointer = 1;
    return out_of(smp.at, next_port());
  }
  if (pointer != 0 && pointer < count) {  // C14-9:2: the path goes on, so this must be a switch
    note_ingress();
    ++pointer;
    return port.is_switch_port() ? out_of(smp.at, next_port()) : Step{};
  }
  if (pointer != count) {  // C14-9:5
    return {};
  }
  if (count != 0) {  // C14-9:3
    note_ingress();
  }
  ++pointer;
  if (smp.route.dr_dlid.is_permissive()) {
    return {.kind = Step::Kind::Arrived};
  }
  return port.is_switch_port() ? Step{.kind = Step::Kind::ByLid, .dlid = smp.route.dr_dlid}
                               : Step{};
}

ManagementNetwork::Step ManagementNetwork::returning_step(Directed& smp) const {
  const std::uint8_t count = smp.header.hop_count;
  std::uint8_t& pointer = smp.header.hop_pointer;
  const PortRecord& port = tables_.port(smp.at);
  const auto next_port = [&] { return smp.mad[wire::kSmpReturnPathAt + pointer]; };
  if (smp.phase == Phase::Landed) {  // C14-13:4
    return pointer == 0 ? Step{.kind = Step::Kind::Arrived} : Step{};
  }
  if (smp.phase == Phase::Start) {  // C14-13:1
    if (pointer != count + 1) {
      return {};
    }
    if (count != 0) {
      --pointer;
      return out_of(smp.at, next_port());
    }
  } else if (pointer >= 2 && pointer <= count) {  // C14-13:2
    --pointer;
    return port.is_switch_port() ? out_of(smp.at, next_port()) : Step{};
  }
  if (pointer != 1) {  // C14-13:5
    return {};
  }
  pointer = 0;  // C14-13:3
  if (smp.route.dr_slid.is_permissive()) {
    return {.kind = Step::Kind::Arrived};
  }
  return port.is_switch_port() ? Step{.kind = Step::Kind::ByLid, .dlid = smp.route.dr_slid}
                               : Step{};
}

ManagementNetwork::Step ManagementNetwork::step(Directed& smp) const {
  return smp.header.direction ? returning_step(smp) : outbound_step(smp);
}

std::optional<ManagementNetwork::Arrival> ManagementNetwork::travel_directed(Parcel& parcel) {
  mad::MadBytes& mad = parcel.packet.bytes;
  Directed smp{
      .mad = mad,
      .header = wire::unpack<wire::SmpDirectedHeader>(std::span{mad}.first<kHeaderBytes>()),
      .route = wire::unpack<wire::SmpRoute>(
          std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>()),
      .at = parcel.from};
  if (smp.header.hop_count > kMaxHopCount) {
    ++counters_.bad_path;
    return std::nullopt;
  }
  Arrival arrival{.at = parcel.from, .source = parcel.from, .is_permissive = true};
  const auto go_by_lid = [&](PortIndex from, Lid dlid) {
    const auto landed = travel_by_lid(parcel, from, dlid);
    if (landed) {
      arrival.source = from;
      arrival.is_permissive = false;
      smp.at = landed->at;
    }
    return landed.has_value();
  };
  // §14.2.2.1: the part before the directed one is LID routed, unless its end is permissive.
  const Lid first = smp.header.direction ? smp.route.dr_dlid : smp.route.dr_slid;
  if (!first.is_permissive()) {
    if (!go_by_lid(parcel.from, parcel.packet.address.lid)) {
      return std::nullopt;
    }
    if (smp.header.hop_count != 0 && !tables_.port(smp.at).is_switch_port()) {
      ++counters_.bad_path;  // only a switch can go on from here
      return std::nullopt;
    }
  }
  // Each step moves the hop pointer, so this ends.
  for (;;) {
    const Step next = step(smp);
    switch (next.kind) {
      case Step::Kind::Refused:
        ++counters_.bad_path;
        return std::nullopt;
      case Step::Kind::Arrived:
        wire::pack(smp.header, std::span{mad}.first<kHeaderBytes>());
        arrival.at = smp.at;
        return arrival;
      case Step::Kind::Out: {
        wire::pack(smp.header, std::span{mad}.first<kHeaderBytes>());  // as it is on the cable
        const PortIndex ingress =
            cross(parcel, next.egress, {.slid = kPermissiveLid, .dlid = kPermissiveLid});
        if (ingress == fabric::kNoPort) {
          return std::nullopt;
        }
        smp.at = ingress;
        smp.phase = Phase::Wire;
        arrival.is_permissive = true;
        break;
      }
      case Step::Kind::ByLid:
        if (!go_by_lid(agents_.management_port(smp.at), next.dlid)) {
          return std::nullopt;
        }
        smp.phase = Phase::Landed;
        break;
    }
  }
}

}  // namespace weft::agents
