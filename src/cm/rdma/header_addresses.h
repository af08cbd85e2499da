#pragma once

// The IP addresses in RDMA-CM's header (IBTA vol 1 annex A11).

#include <algorithm>
#include <cstdint>

#include "base/ip_address.h"
#include "wire/cm/rdma_cm_header.h"

namespace weft::cm {

[[nodiscard]] inline bool has_ip_addresses(const wire::RdmaCmHeader& header) {
  return header.ip_version == static_cast<std::uint8_t>(IpFamily::V4) ||
         header.ip_version == static_cast<std::uint8_t>(IpFamily::V6);
}

/// One of the header's own, which has_ip_addresses().
[[nodiscard]] inline IpAddress address_in(const wire::RdmaCmHeader& header,
                                          const wire::RdmaCmAddress& octets) {
  if (header.ip_version != static_cast<std::uint8_t>(IpFamily::V4)) {
    return IpAddress{octets};
  }
  IpAddress::V4Octets last{};
  std::ranges::copy(octets.end() - static_cast<std::ptrdiff_t>(last.size()), octets.end(),
                    last.begin());
  return IpAddress{last};
}

}  // namespace weft::cm
