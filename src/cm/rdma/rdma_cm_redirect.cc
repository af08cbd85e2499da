// Redirection: the active side follows a REJ for port redirection by itself (IBTA vol 1 §12.6.7),
// after querying SA for the new path.

#include <array>
#include <optional>

#include "base/bytes.h"
#include "cm/rdma/rdma_cm.h"
#include "wire/layout.h"

namespace weft::cm {

/// Parses the ARI. Both reasons carry a ClassPortInfo; for a port redirection a GID suffices. None
/// if it identifies no destination.
std::optional<RdmaCm::Redirection> RdmaCm::redirection_of(const RejReceived& rej) {
  const bool is_of_manager = rej.reason == wire::RejectReason::PortAndCmRedirection;
  if (!is_of_manager && rej.reason != wire::RejectReason::PortRedirection) {
    return std::nullopt;
  }
  const ByteSpan words = rej.additional_information;
  Redirection redirection{.to = {}, .is_of_manager = is_of_manager};
  if (const auto info = wire::parse<wire::ClassPortInfo>(words)) {
    redirection.to = *info;
  } else if (!is_of_manager && words.size() >= Gid::kSize) {
    std::array<std::byte, Gid::kSize> octets{};
    copy_bytes(octets, words.first(octets.size()));
    redirection.to.redirect_gid = Gid{octets};
  }
  const Gid& gid = redirection.to.redirect_gid;
  const bool has_manager_address =
      gid.is_zero() ? redirection.to.redirect_lid.is_unicast() : !gid.is_multicast();
  return has_manager_address ? std::optional{redirection} : std::nullopt;
}

/// Returns true if the request was resent or a path query was started; the user is not notified in
/// this case.
bool RdmaCm::follow_redirection(RdmaCmId id, Id& of, const CmEvent& event, Instant now) {
  const auto redirection = redirection_of(std::get<RejReceived>(event.details));
  const auto port = of.port ? ports_.find(*of.port) : ports_.end();
  if (!redirection || !of.pending_request || of.state != RdmaCmState::Connect || of.query ||
      port == ports_.end() || of.redirections >= limits_.redirections) {
    return false;
  }
  ++of.redirections;
  const wire::ClassPortInfo& to = redirection->to;
  const PKey pkey = to.redirect_pkey.value() != 0 ? to.redirect_pkey : of.pkey;
  if (to.redirect_gid.is_zero()) {  // in this subnet: no path query needed
    Path path = of.paths.front();
    path.dlid = to.redirect_lid;
    path.sl = to.redirect_sl;
    path.pkey = pkey;
    return request_again(of, path, *redirection, now);
  }
  const auto pending_request = port->second.sa.resolve_path(
      path_query_of(of, to.redirect_gid, pkey), {},
      [this, id, event, to = *redirection](sa::QueryId, const sa::Answer<wire::PathRecord>& path,
                                           Instant at) {
        Id* const found = find(id);
        if (found == nullptr) {
          return;
        }
        found->query.reset();
        const auto usable = path ? path_of(*path) : std::nullopt;
        if (found->state == RdmaCmState::Connect &&
            (!usable || !request_again(*found, *usable, to, at))) {
          report_rejected(id, *found, event);
        }
      },
      now);
  if (pending_request) {
    of.query = *pending_request;
  }
  return pending_request.has_value();
}

bool RdmaCm::request_again(Id& of, const Path& path, const Redirection& redirection, Instant now) {
  if (redirection.is_of_manager) {
    const wire::ClassPortInfo& to = redirection.to;
    of.manager = ManagerAddress{.path = path};
    if (to.redirect_qp.value() != 0) {
      of.manager->qpn = to.redirect_qp;
      of.manager->qkey = to.redirect_qkey.value() != 0 ? to.redirect_qkey : kGsiQKey;
    }
  } else if (!of.manager) {
    of.manager = ManagerAddress{.path = of.paths.front()};  // same destination as before
  }
  of.paths = {path};
  of.dgid = path.dgid;
  return send_request(of, *of.pending_request, now).has_value();
}

}  // namespace weft::cm
