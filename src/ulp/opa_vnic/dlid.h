#pragma once

// Where a frame goes (R-VN-15). Pure functions.

#include <array>
#include <cstdint>
#include <optional>

#include "ulp/opa_vnic/mac_table.h"
#include "wire/mac_address.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::opa_vnic {

inline constexpr std::size_t kFlowTableSize = 32;  ///< OPA_VNIC_FLOW_TBL_SIZE

/// Which of the virtual switch's default ports a flow uses; none if the mask is empty.
using FlowTable = std::array<std::optional<std::uint8_t>, kFlowTableSize>;

/// Entry i is the i-th port of the mask, modulo their number.
[[nodiscard]] FlowTable make_flow_table(std::uint16_t default_port_mask);

/// The DLID of a frame; 0: there is none, the frame is dropped. In this order: the MAC table, the
/// virtual switch's multicast LID, the LID in a locally administered address, a default port.
[[nodiscard]] std::uint32_t choose_dlid(const wire::MacAddress& destination, std::uint8_t entropy,
                                        const wire::VeswInfo& vesw, const MacTable& macs,
                                        const FlowTable& flows);

}  // namespace weft::opa_vnic
