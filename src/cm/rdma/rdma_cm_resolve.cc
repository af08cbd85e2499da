// Address and route resolution: the local port, and the path to the peer.

#include <algorithm>
#include <utility>

#include "cm/rdma/rdma_cm.h"

namespace weft::cm {
namespace {

[[nodiscard]] RdmaCmFailure failure_of(sa::ResolutionFailure failure) {
  switch (failure) {
    case sa::ResolutionFailure::Cancelled:
      return RdmaCmFailure::Cancelled;
    case sa::ResolutionFailure::TimedOut:
      return RdmaCmFailure::TimedOut;
    case sa::ResolutionFailure::NoRoute:
      return RdmaCmFailure::NetworkUnreachable;
    case sa::ResolutionFailure::NoSuchSource:
      return RdmaCmFailure::NoSuchAddress;
    case sa::ResolutionFailure::Down:
      return RdmaCmFailure::NetworkDown;
  }
  return RdmaCmFailure::InvalidArgument;
}

[[nodiscard]] RdmaCmFailure failure_of(const sa::QueryError& error) {
  switch (error.failure) {
    case sa::QueryFailure::NoPath:
      return RdmaCmFailure::HostUnreachable;
    case sa::QueryFailure::Cancelled:
      return RdmaCmFailure::Cancelled;
    case sa::QueryFailure::TimedOut:
      return RdmaCmFailure::TimedOut;
    case sa::QueryFailure::NotSent:
      return RdmaCmFailure::NetworkDown;
    case sa::QueryFailure::NoGroup:
    case sa::QueryFailure::Refused:
    case sa::QueryFailure::BadAnswer:
      return RdmaCmFailure::InvalidArgument;
  }
  return RdmaCmFailure::InvalidArgument;
}

}  // namespace

std::optional<Path> path_of(const wire::PathRecord& record) {
  const auto mtu = verbs::mtu_of(record.mtu);
  if (!mtu) {
    return std::nullopt;
  }
  return Path{.sgid = record.sgid,
              .dgid = record.dgid,
              .slid = record.slid,
              .dlid = record.dlid,
              .sl = record.sl,
              .pkey = record.pkey,
              .mtu = *mtu,
              .rate = record.rate,
              .packet_life_time = record.packet_life_time,
              .traffic_class = record.tclass,
              .hop_limit = record.hop_limit,
              .flow_label = record.flow_label,
              .is_reversible = record.reversible};
}

Result<void> RdmaCm::resolve_ib(RdmaCmId id, Id& of, const IbEndpoint& destination) {
  if (!of.port) {
    const auto found = std::ranges::find_if(ports_, [&](const auto& port) {
      const sa::LocalPort& local = port.second.sa.port();
      return local.is_active() && !local.gids.empty() &&
             local.gids.front().prefix() == destination.gid.prefix();
    });
    if (found == ports_.end()) {
      return fail(ErrorCode::NetworkUnreachable,
                  "no port of this host that is up has the destination's GID prefix");
    }
    of.port = found->first;
    of.sgid = found->second.sa.port().gids.front();
    auto* const source = std::get_if<IbEndpoint>(&of.source);
    if (source != nullptr) {
      source->gid = of.sgid;
    }
  }
  of.dgid = destination.gid;
  if (destination.pkey.value() != 0) {
    of.pkey = destination.pkey;
  }
  of.state = RdmaCmState::AddressResolved;
  static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::AddressResolved}));
  return {};
}

/// A multicast address is reachable through any port: that of the source, or the host's first.
Result<void> RdmaCm::resolve_group(RdmaCmId id, Id& of, const IpEndpoint& group) {
  if (!of.port) {
    const std::vector<sa::Resolver::Own> own = resolver_.own_addresses();
    const auto found = std::ranges::find_if(own, [&](const sa::Resolver::Own& one) {
      return one.address.address.family() == group.address.family();
    });
    if (found == own.end()) {
      return fail(ErrorCode::NetworkUnreachable, "no port of this host has an address of the kind");
    }
    const IpEndpoint source{.address = found->address.address, .port = port_number_of(of.source)};
    if (of.state == RdmaCmState::Idle) {
      if (auto bound = take_address(id, source); !bound) {
        return bound;
      }
    } else {
      of.source = source;
      if (auto bound = bind_to_port_of(of); !bound) {
        return bound;
      }
    }
  }
  of.destination = group;
  of.dgid = *group_of(of, group);
  of.state = RdmaCmState::AddressResolved;
  static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::AddressResolved}));
  return {};
}

Result<void> RdmaCm::resolve_address(RdmaCmId id, const AddressQuery& query, Instant now) {
  auto in = in_state(id, {RdmaCmState::Idle, RdmaCmState::AddressBound}, "resolving an address");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  if (of.state == RdmaCmState::Idle && is_given(query.source)) {
    if (auto bound = take_address(id, query.source); !bound) {
      return bound;
    }
  }
  if (const auto* const ib = std::get_if<IbEndpoint>(&query.destination)) {
    if (of.state == RdmaCmState::Idle) {
      if (auto bound = take_address(id, IbEndpoint{.pkey = ib->pkey,
                                                   .service_id = ib->service_id & ~0xFFFFU,
                                                   .service_mask = ib->service_mask & ~0xFFFFU});
          !bound) {
        return bound;
      }
    }
    of.destination = *ib;
    return resolve_ib(id, of, *ib);
  }
  const auto* const destination = std::get_if<IpEndpoint>(&query.destination);
  if (destination == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a destination is an IPv4, IPv6 or AF_IB address");
  }
  if (destination->address.is_multicast()) {
    return resolve_group(id, of, *destination);
  }
  const auto* const source = std::get_if<IpEndpoint>(&of.source);
  // An unspecified destination means the local host, as for sockets.
  const IpAddress wanted = destination->address.unmapped();
  const IpAddress to = wanted.is_unspecified()
                           ? (wanted.is_v4() ? IpAddress::v4(0x7F00'0001) : IpAddress::v6(0, 1))
                           : wanted;
  IpAddress from = wanted.is_v4() ? IpAddress{} : IpAddress::v6(0, 0);
  if (source != nullptr && !source->address.is_unspecified() && !is_own_loopback(source->address)) {
    from = source->address.unmapped();
  }
  of.peer_address = is_own_loopback(to) && query.loopback_target ? *query.loopback_target : to;
  const auto started = resolver_.resolve(
      from, of.peer_address, query.timeout,
      [this, id](sa::ResolutionId, const auto& resolution, Instant) {
        Id* const found = find(id);
        if (found == nullptr || found->state != RdmaCmState::AddressQuery) {
          return;
        }
        found->resolution.reset();
        if (resolution) {
          address_found(id, *resolution);
          return;
        }
        found->state = found->claimed_port != 0 ? RdmaCmState::AddressBound : RdmaCmState::Idle;
        fail_with(id, *found, RdmaCmEventType::AddressError,
                  failure_of(resolution.error().failure));
      },
      now);
  if (!started) {
    return std::unexpected(started.error());
  }
  of.destination = *destination;
  of.resolution = *started;
  of.state = RdmaCmState::AddressQuery;
  return {};
}

void RdmaCm::address_found(RdmaCmId id, const sa::Resolution& found) {
  Id& of = *find(id);
  of.port = PortKey{found.port.value()};
  of.pkey = found.pkey;
  of.sgid = found.source_gid;
  of.dgid = found.destination_gid;
  of.peer_address = own_address(of.peer_address);
  if (const auto* const source = std::get_if<IpEndpoint>(&of.source);
      source == nullptr || source->address.is_unspecified()) {
    IpEndpoint chosen = source == nullptr ? IpEndpoint{} : *source;
    chosen.address = found.source;
    of.source = chosen;
  }
  if (of.claimed_port == 0) {
    if (const auto taken = take_port(id, of); !taken) {
      of.state = RdmaCmState::Idle;
      return fail_with(id, of, RdmaCmEventType::AddressError, RdmaCmFailure::NoSuchAddress);
    }
  }
  of.state = RdmaCmState::AddressResolved;
  static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::AddressResolved}));
}

/// As in Linux, the IPv4 type of service selects the QoS class of the path query, and the flow
/// information of an IPv6 or AF_IB source the traffic class; SA maps these to a service level (IBTA
/// vol 1 §15.2.5.16). If the source has no traffic class, the type of service is used, which is
/// equivalent in IPv6 (RFC 2474 §3); Linux leaves the traffic class out then. Likewise as in Linux,
/// the query names the service to which the connection goes (annex A11), by which SA may choose.
sa::PathQuery RdmaCm::path_query_of(const Id& of, const Gid& dgid, PKey pkey) {
  constexpr unsigned kTrafficClassAt = 20;  // RFC 8200 §3: above the flow label
  const auto* const destination = std::get_if<IpEndpoint>(&of.destination);
  sa::PathQuery path_query{.sgid = of.sgid,
                           .dgid = dgid,
                           .pkey = pkey,
                           .service_id = service_id_of(of.space, of.destination)};
  if (destination != nullptr && destination->address.unmapped().is_v4()) {
    path_query.qos_class = of.type_of_service;
    return path_query;
  }
  const auto* const ip = std::get_if<IpEndpoint>(&of.source);
  const auto* const ib = std::get_if<IbEndpoint>(&of.source);
  const std::uint32_t flow_info = ip != nullptr ? ip->flow_info : ib != nullptr ? ib->flow_info : 0;
  const auto named = static_cast<std::uint8_t>(flow_info >> kTrafficClassAt);
  path_query.tclass = named != 0 ? named : of.type_of_service;
  return path_query;
}

Result<void> RdmaCm::resolve_route(RdmaCmId id, Duration timeout, Instant now) {
  auto in = in_state(id, {RdmaCmState::AddressResolved}, "resolving a route");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  const auto port = ports_.find(*of.port);
  if (port == ports_.end()) {
    return fail(ErrorCode::NoSuchDevice, "the id's port was removed");
  }
  const auto started = port->second.sa.resolve_path(
      path_query_of(of, of.dgid, of.pkey), {.timeout = timeout},
      [this, id](sa::QueryId, const sa::Answer<wire::PathRecord>& path, Instant) {
        path_found(id, path);
      },
      now);
  if (!started) {
    return std::unexpected(started.error());
  }
  of.query = *started;
  of.state = RdmaCmState::RouteQuery;
  return {};
}

void RdmaCm::path_found(RdmaCmId id, const sa::Answer<wire::PathRecord>& path) {
  Id* const of = find(id);
  if (of == nullptr || of->state != RdmaCmState::RouteQuery) {
    return;
  }
  of->query.reset();
  if (!path) {
    of->state = RdmaCmState::AddressResolved;
    return fail_with(id, *of, RdmaCmEventType::RouteError, failure_of(path.error()));
  }
  const auto usable = path_of(*path);
  if (!usable) {
    of->state = RdmaCmState::AddressResolved;
    return fail_with(id, *of, RdmaCmEventType::RouteError, RdmaCmFailure::InvalidArgument);
  }
  of->paths = {*usable};
  of->state = RdmaCmState::RouteResolved;
  static_cast<void>(report_event(id, *of, {.type = RdmaCmEventType::RouteResolved}));
}

Result<void> RdmaCm::set_paths(RdmaCmId id, std::vector<Path> paths) {
  auto in = in_state(id, {RdmaCmState::AddressResolved}, "giving paths");
  if (!in) {
    return std::unexpected(in.error());
  }
  if (paths.empty() || paths.size() > 2) {
    return fail(ErrorCode::InvalidArgument, "{} paths: a primary one, and an alternate at most",
                paths.size());
  }
  Id& of = **in;
  of.paths = std::move(paths);
  of.state = RdmaCmState::RouteResolved;
  static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::RouteResolved}));
  return {};
}

}  // namespace weft::cm
