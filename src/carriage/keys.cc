// ManagementNetwork's keys and addresses: who may send to whom, and how a receiver sees the sender.

#include <algorithm>
#include <span>

#include "carriage/management_network.h"
#include "fabric/walk.h"

namespace weft::carriage {

using fabric::PortIndex;
using fabric::PortRecord;

/// P_Key of what comes to a port, and Q_Key to QP1 (IBTA vol 1 §10.9.3, §10.2.5). A sender can only
/// have used a P_Key of its own table.
bool ManagementNetwork::keys_pass(const InFlightPacket& packet, Instant now) {
  const mad::MadAddress& address = packet.packet.address;
  const PortIndex own = fabric::management_port(tables_, packet.arrival.at);
  const auto has = [&](PortIndex port, auto test) {
    return std::ranges::any_of(tables_.pkeys(port), test);
  };
  if (!has(packet.from, [&](PKey pkey) { return pkey == address.pkey; })) {
    ++counters_.bad_key;
    return false;
  }
  const bool has_pkey = has(own, [&](PKey pkey) { return pkey.matches(address.pkey); });
  if (has_pkey && (!packet.is_mad() || address.qkey == kGsiQKey)) {
    return true;
  }
  ++counters_.bad_key;
  BadKey bad{.source = tables_.port(packet.arrival.source).lid,
             .destination = address.lid,
             .sl = address.sl,
             .source_qp = packet.datagram != nullptr ? packet.datagram->source_qp : kQp1,
             .destination_qp = address.qp,
             .source_gid = tables_.gids(packet.arrival.source).front()};
  if (!has_pkey) {
    bad.key = address.pkey.value();
    agents_.report_bad_pkey(own, bad, now);
  } else {
    bad.key = address.qkey.value();
    agents_.report_bad_qkey(own, bad, now);
  }
  return false;
}

/// How the receiver sees the sender, and reaches it.
mad::MadAddress ManagementNetwork::source_of(const InFlightPacket& packet) const {
  const mad::MadAddress& to = packet.packet.address;
  const PortRecord& source = tables_.port(packet.arrival.source);
  const PortRecord& own = tables_.port(fabric::management_port(tables_, packet.arrival.at));
  const bool is_smi = packet.kind == mad::InterfaceKind::Smi;
  // Path bits choose among the sender's own LIDs and reach no other's.
  const std::uint32_t path_bits = to.path_bits & ((1U << source.lmc) - 1);
  mad::MadAddress from{
      .lid = packet.arrival.is_permissive ? kPermissiveLid : Lid{source.lid.value() + path_bits},
      .sl = to.sl,
      .qp = is_smi ? kQp0 : kQp1,
      .qkey = is_smi ? QKey{} : kGsiQKey,
      .pkey = to.pkey};
  // The receiver knows by which of its own P_Keys the packet came in, and answers by that.
  const std::span<const PKey> own_keys =
      tables_.pkeys(fabric::management_port(tables_, packet.arrival.at));
  const auto matching = [&](PKey own_key) { return own_key.matches(to.pkey); };
  if (const auto key = std::ranges::find_if(own_keys, matching); !is_smi && key != own_keys.end()) {
    from.pkey = *key;
  }
  if (packet.datagram != nullptr) {
    from.qp = packet.datagram->source_qp;
    from.qkey = to.qkey;
  }
  if (own.owns(to.lid)) {
    from.path_bits = static_cast<std::uint8_t>(to.lid.value() - own.lid.value());
  }
  if (to.global) {
    from.global = to.global;
    const std::span<const Gid> gids = tables_.gids(packet.arrival.source);
    from.global->dgid =
        to.global->sgid_index < gids.size() ? gids[to.global->sgid_index] : gids.front();
    const std::span<const Gid> own_gids =
        tables_.gids(fabric::management_port(tables_, packet.arrival.at));
    const auto meant = std::ranges::find(own_gids, to.global->dgid);  // of a group: none
    from.global->sgid_index = meant == own_gids.end()
                                  ? std::uint8_t{0}
                                  : static_cast<std::uint8_t>(meant - own_gids.begin());
  }
  return from;
}

}  // namespace weft::carriage
