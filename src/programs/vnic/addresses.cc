#include "programs/vnic/addresses.h"

#include "programs/net/addresses.h"

namespace weft::programs::vnic {

// Policy: beside those of ib0.
Result<std::vector<InterfaceAddress>> opa0_addresses(std::span<const IpAddress> of_eth0) {
  return net::addresses_by_position({.interface = "opa0",
                                     .ipv4 = 0x0A4E'0000,  // 10.78.0.0/16
                                     .unique_local = 0xFD77'016B'0000'0000},
                                    of_eth0);
}

}  // namespace weft::programs::vnic
