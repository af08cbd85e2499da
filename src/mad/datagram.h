#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "mad/mad_address.h"

namespace weft::mad {

/// An outgoing UD packet of a host's kernel side that is not a MAD, such as IPoIB. For multicast,
/// `to` holds the MLID, QP kMulticastQpn, and the MGID in its global part.
struct Datagram {
  Qpn source_qp{};
  MadAddress to{};
  std::vector<std::byte> payload{};
  bool operator==(const Datagram&) const = default;
};

/// An incoming UD packet. `source` is the address for a reply, with the receiver's own P_Key; its
/// Q_Key is the packet's.
struct ReceivedDatagram {
  Qpn destination_qp{};   ///< kMulticastQpn for multicast
  Gid destination_gid{};  ///< from the GRH; zero without one
  MadAddress source{};
  ByteSpan payload{};
};

}  // namespace weft::mad
