#include "ulp/opa_vnic/vema_port.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ulp/opa_vnic/planted_bug.h"

namespace weft::opa_vnic {

using wire::MadMethod;
using wire::VemaEvent;

VirtualPort* VemaPort::find_vport(std::uint8_t number) {
  const auto found = vports_.find(number);
  return found == vports_.end() ? nullptr : &found->second;
}

VirtualPort* VemaPort::find_vesw(std::uint16_t vesw_id) {
  const auto found = std::ranges::find_if(vports_, [&](const auto& vport) {
    return vport.second.info().vesw.vesw_id == vesw_id || planted(PlantedBug::AnyVeswDelivered);
  });
  return found == vports_.end() ? nullptr : &found->second;
}

VirtualPort* VemaPort::add_vport(std::uint8_t number) {
  const VirtualPortName name{.opa_port = number_, .number = number};
  if (number >= kMaxVportNumbers || !device_.add_interface(name)) {
    return nullptr;
  }
  const auto added = vports_.try_emplace(number, name, device_.hardware_mac(name), limits_).first;
  return &added->second;
}

void VemaPort::remove_vports() {
  for (const auto& [number, vport] : vports_) {
    device_.remove_interface(vport.name());
  }
  vports_.clear();
}

void VemaPort::set_active(bool is_active, Instant now) {
  for (auto& [number, vport] : vports_) {
    vport.set_port_active(is_active, now);
    device_.interface_changed(vport);
  }
}

void VemaPort::receive(const VemaPeer& from, ByteSpan bytes, Instant now) {
  const auto mad = wire::parse<wire::VemaMad>(bytes);
  if (!mad || bytes.size() != wire::kOpaMadBytes || mad->header.mgmt_class != wire::kVemaClass ||
      mad->oui != wire::kVemaOui) {
    ++counters_.malformed;
    return;
  }
  if (mad->header.method == MadMethod::TrapRepress) {
    return repress(*mad);
  }
  if (wire::is_response(mad->header.method)) {
    ++counters_.malformed;  // an answer to an answer would never end
    return;
  }
  ++counters_.requests;
  const wire::VemaMad response = answer(*mad, now);
  counters_.refused += response.header.status != 0 ? 1U : 0U;
  const auto packed = wire::pack(response);
  device_.send_mad(number_, from, {packed.begin(), packed.end()});
}

void VemaPort::repress(const wire::VemaMad& mad) {
  const auto found =
      std::ranges::find(sent_traps_, mad.header.transaction_id, &SentTrap::transaction_id);
  if (found == sent_traps_.end()) {
    return;
  }
  if (VirtualPort* const vport = find_vport(found->vport)) {
    vport->traps().settle(found->event);
  }
  sent_traps_.erase(found);
}

void VemaPort::send_trap(VirtualPort& vport, VemaEvent event) {
  wire::VemaMad mad{};
  mad.header = {.base_version = wire::kOpaMadVersion,
                .mgmt_class = wire::kVemaClass,
                .class_version = wire::kOpaMadVersion,
                .method = MadMethod::Trap,
                .transaction_id = next_transaction_++,
                .attribute_id = wire::kAttributeNotice,
                .attribute_modifier = vport.name().number};
  const wire::VemaNotice notice{.issuer_lid = vport.info().port.encap_slid,
                                .trap = vport.trap(event)};
  wire::pack(notice, std::span{mad.data}.first<wire::kSizeOf<wire::VemaNotice>>());
  if (sent_traps_.size() == kMostSentTraps) {
    sent_traps_.pop_front();
  }
  sent_traps_.push_back({mad.header.transaction_id, vport.name().number, event});
  ++counters_.traps;
  const auto packed = wire::pack(mad);
  device_.send_mad(number_,
                   {.lid = Lid{class_port_info_.trap_lid},
                    .qp = kQp1,
                    .sl = ServiceLevel{class_port_info_.trap_sl},
                    .pkey = device_.management_pkey(number_)},
                   {packed.begin(), packed.end()});
}

void VemaPort::handle_timeout(Instant now) {
  if (class_port_info_.trap_lid == 0) {
    return;  // nobody to tell
  }
  for (auto& [number, vport] : vports_) {
    while (const auto event = vport.traps().take(now)) {
      send_trap(vport, *event);
    }
  }
}

Instant VemaPort::deadline() const {
  Instant first = Instant::never();
  if (class_port_info_.trap_lid != 0) {
    for (const auto& [number, vport] : vports_) {
      first = std::min(first, vport.traps().deadline());
    }
  }
  return first;
}

}  // namespace weft::opa_vnic
