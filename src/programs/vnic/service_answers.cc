// What the service says to who asks it by its control socket (`weft vnic show`).

#include "programs/vnic/report.h"
#include "programs/vnic/service.h"

namespace weft::programs::vnic {

std::string Service::answer(std::string_view line) const {
  if (line != "show" && line != "show json") {
    return "this is asked for show, or show json\n";
  }
  std::vector<VnicView> views;
  for (const auto& [number, vport] : vnics_->get_port(PortNumber{1})->vports()) {
    const wire::VeswInfo vesw = vport.info().vesw;
    const auto tap = taps_.find(vport.name());
    views.push_back({.name = tap == taps_.end() ? "" : tap->second.tun.name(),
                     .is_up = vport.is_forwarding(),
                     .mtu = vport.mtu(),
                     .mac = vport.mac(),
                     .fabric_id = vesw.fabric_id,
                     .vesw_id = vesw.vesw_id,
                     .summary = vport.summary_counters(),
                     .errors = vport.error_counters(),
                     .not_for_us = vport.counters().not_for_us(),
                     .lost = tap == taps_.end() ? 0 : tap->second.lost});
  }
  return show_vnics({.is_omni_path = port_->is_omni_path(),
                     .lid = port_->lid(),
                     .is_announced = port_->is_announced(),
                     .mad_qp = port_->mad_qp(),
                     .packet_qp = port_->packet_qp(),
                     .counters = port_->counters()},
                    views, line == "show json");
}

}  // namespace weft::programs::vnic
