#include "carriage/omni_path_packet.h"

#include <utility>

#include "wire/opa/packet_16b.h"

namespace weft::carriage {

Result<OmniPathPacket> to_omni_path_packet(std::vector<std::byte> octets) {
  const auto parsed = wire::parse_opa_16b(octets);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const wire::Opa16bHeader& header = parsed->header;
  OmniPathPacket packet{
      .address = {.source = fabric::ExtendedLid{header.slid.value()},
                  .destination = fabric::ExtendedLid{header.dlid.value()}},
      .pkey = header.pkey,
      .service_channel = header.service_channel,
      .is_management = header.l4_type == wire::kOpaL4Fm
  };
  packet.octets = std::move(octets);
  return packet;
}

}  // namespace weft::carriage
