#include "scsi/command.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace weft::scsi {

TransportId srp_transport_id(ByteSpan initiator_port_id) {  // SPC-4 §7.6.4.4
  WEFT_ASSERT(initiator_port_id.size() == 16, "an SRP initiator port identifier has 16 octets");
  TransportId id(24);
  id[0] = std::byte{0x04};  // PROTOCOL IDENTIFIER: SRP
  copy_bytes(MutableByteSpan{id}.subspan(8), initiator_port_id);
  return id;
}

TransportId iscsi_transport_id(const std::string& name, std::uint64_t isid) {  // SPC-4 §7.6.4.6
  const std::string text = fmt::format("{},i,0x{:012x}", name, isid & 0xFFFF'FFFF'FFFF);
  const std::size_t length = (text.size() + 1 + 3) / 4 * 4;  // null-terminated, null-padded
  TransportId id(4 + (length < 20 ? 20 : length));
  id[0] = std::byte{0x45};  // FORMAT CODE 01b, PROTOCOL IDENTIFIER: iSCSI
  id[2] = static_cast<std::byte>((id.size() - 4) >> 8);
  id[3] = static_cast<std::byte>((id.size() - 4) & 0xFF);
  for (std::size_t i = 0; i < text.size(); ++i) {
    id[4 + i] = static_cast<std::byte>(text[i]);
  }
  return id;
}

}  // namespace weft::scsi
