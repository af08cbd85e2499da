// Automatic path migration (IBTA vol 1 §17.2.8): a connection has an alternate path loaded, and
// both ends switch to it together. The MigReq bit of each packet carries its sender's state: set in
// MIGRATED, clear in REARM and ARMED.

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "hca/qp.h"

namespace weft::hca {

/// From the far end of a path, at the port where the path ends here.
bool QpCore::arrives_on(const PacketRoute& path, const AddressVector& address, PKey key,
                        const PacketHeader& header) const {
  const PortSource& here = sources[path.source_port.value()];
  return header.slid == path.dlid &&
         (header.dlid.value() & ~std::uint32_t{here.path_mask}) == here.lid.value() &&
         key.matches(header.pkey) &&
         !(address.is_global && header.has_grh && header.grh.sgid != address.grh.dgid);
}

void QpCore::process_mig_req(const PacketHeader& header) {
  const bool is_connected =
      state() == QpState::Rtr || state() == QpState::Rts || state() == QpState::Sqd;
  if (!is_connected || attributes.migration == MigrationState::Migrated) {
    return;
  }
  const bool by_primary = arrives_on(route, attributes.address, pkey, header);
  const bool by_alternate =
      arrives_on(alternate_route, attributes.alternate_address, alternate_pkey, header);
  if (!header.migrated) {  // the peer is in REARM or ARMED
    if (by_primary) {
      attributes.migration = MigrationState::Armed;
    }
    return;
  }
  // If the two paths differ only in this end's path bits, a late packet that the peer sent in
  // MIGRATED, before it rearmed, must not be mistaken for a migration request.
  if (by_alternate && (!by_primary || header.dlid == alternate_route.slid)) {
    migrate();
  } else if (!by_primary && attributes.migration == MigrationState::Armed) {
    explain([&] {
      return fmt::format(
          "QP {:#x}: its peer migrates to a path from LID {} to LID {}, which is not the alternate "
          "path that is loaded here (from LID {} to LID {})",
          number.value(), header.slid.value(), header.dlid.value(), alternate_route.dlid.value(),
          alternate_route.slid.value());
    });
    raise(AsyncEventType::PathMigrationError);
  }
}

void QpCore::migrate() {
  std::swap(attributes.address, attributes.alternate_address);
  std::swap(attributes.port, attributes.alternate_port);
  std::swap(attributes.pkey_index, attributes.alternate_pkey_index);
  std::swap(attributes.timeout, attributes.alternate_timeout);
  std::swap(route, alternate_route);
  std::swap(pkey, alternate_pkey);
  attributes.migration = MigrationState::Migrated;
  refresh_header();
  transport->on_migration();
  raise(AsyncEventType::PathMigrated);
}

void Qp::process_mig_req(const Packet& packet) {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  core_->enter_error_if_failing();
  if (is_of_peer(packet)) {
    core_->process_mig_req(packet.header);
  }
  publish_port();
  publish_hints();
}

}  // namespace weft::hca
