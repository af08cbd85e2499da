#pragma once

// What `weft em show` prints, as text or as JSON. Pure.

#include <string>

#include "programs/em/switches_file.h"
#include "ulp/opa_vnic/manager/ethernet_manager.h"

namespace weft::programs::em {

/// `config`: the switches that there are so far.
[[nodiscard]] std::string show_switches(const SwitchesFile& file,
                                        const opa_vnic::ManagerConfig& config,
                                        const opa_vnic::EthernetManager& manager, bool is_json);

}  // namespace weft::programs::em
