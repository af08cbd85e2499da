#pragma once

#include "base/result.h"
#include "core/cm/rdma_cm.h"

struct sockaddr;
struct sockaddr_storage;

namespace weft::kernel {

/// What an id is bound to or connects to. InvalidArgument: null, or another family than IPv4 and
/// IPv6.
[[nodiscard]] Result<core::RdmaCmAddress> address_of(const sockaddr* address);

void store(sockaddr_storage& into, const core::RdmaCmAddress& address);

}  // namespace weft::kernel
