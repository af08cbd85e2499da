#pragma once

// Conversion between a program's messages (uabi/rdma_cm_messages.h) and RDMA-CM (cm/rdma):
// addresses, which travel as the bytes of sockaddr_*, and events. Everything else travels as
// RDMA-CM takes it (src/verbs).

#include <optional>
#include <span>

#include "cm/rdma/rdma_cm.h"
#include "uabi/messages.h"

namespace weft::daemon {

/// None for a number that is not defined.
[[nodiscard]] std::optional<cm::PortSpace> port_space_of(std::uint16_t number);

[[nodiscard]] cm::SocketAddress address_of(const uabi::RdmaCmAddress& address);
[[nodiscard]] uabi::RdmaCmAddress address_of(const cm::SocketAddress& address);

[[nodiscard]] uabi::RdmaCmIdState state_of(const cm::RdmaCmIdInfo& info);
/// The first of them, as many as fit.
[[nodiscard]] uabi::RdmaCmServices services_of(std::span<const cm::ServicePlace> places);
[[nodiscard]] uabi::RdmaCmEvent event_of(const cm::RdmaCmEvent& event);
/// None: programs do not write events of that type.
[[nodiscard]] std::optional<cm::RdmaCmEvent> event_of(const uabi::WriteRdmaCmEvent& written);

}  // namespace weft::daemon
