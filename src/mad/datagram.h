#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "mad/mad_address.h"

namespace weft::mad {

/// An unreliable datagram of a host's kernel side, other than a MAD: of IPoIB, to begin with. To a
/// group its address has the MLID, QP kMulticastQpn, and the MGID in its global part.
struct Datagram {
  Qpn source_qp{};
  MadAddress to{};
  std::vector<std::byte> payload{};
  bool operator==(const Datagram&) const = default;
};

/// How one arrived. `source` is how its sender is reached, by the receiver's own P_Key; its Q_Key
/// is that of the packet.
struct ReceivedDatagram {
  Qpn destination_qp{};   ///< kMulticastQpn: to a group
  Gid destination_gid{};  ///< of a GRH; zero without one
  MadAddress source{};
  ByteSpan payload{};
};

}  // namespace weft::mad
