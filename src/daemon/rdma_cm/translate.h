#pragma once

// Conversion between a program's messages (uabi/rdma_cm_messages.h) and RDMA-CM (cm/rdma). Values
// out of range, which only a faulty program sends, are truncated to their fields.

#include <optional>
#include <span>

#include "cm/rdma/rdma_cm.h"
#include "uabi/messages.h"

namespace weft::daemon {

/// None for numbers that are not defined.
[[nodiscard]] std::optional<cm::PortSpace> port_space_of(std::uint16_t number);
[[nodiscard]] std::optional<cm::QpType> qp_type_of(std::uint8_t number);

[[nodiscard]] cm::SocketAddress address_of(const uabi::RdmaCmAddress& address);
[[nodiscard]] uabi::RdmaCmAddress address_of(const cm::SocketAddress& address);
[[nodiscard]] cm::ConnectionParameters parameters_of(const uabi::RdmaCmParameters& parameters,
                                                     const uabi::RdmaCmEce& ece);
[[nodiscard]] cm::Path path_of(const uabi::RdmaCmPath& path);

[[nodiscard]] uabi::RdmaCmIdState state_of(const cm::RdmaCmIdInfo& info);
/// The first of them, as many as fit.
[[nodiscard]] uabi::RdmaCmServices services_of(std::span<const cm::ServicePlace> places);
[[nodiscard]] uabi::RdmaCmQpAttributes attributes_of(const cm::RdmaCm::QpTransition& transition);
[[nodiscard]] uabi::RdmaCmEvent event_of(const cm::RdmaCmEvent& event);
/// None: programs do not write events of that type.
[[nodiscard]] std::optional<cm::RdmaCmEvent> event_of(const uabi::WriteRdmaCmEvent& written);

}  // namespace weft::daemon
