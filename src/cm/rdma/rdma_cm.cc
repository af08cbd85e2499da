#include "cm/rdma/rdma_cm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::cm {
namespace {

constexpr std::array<std::string_view, kRdmaCmStateCount> kStateNames{
    "IDLE",           "ADDR_BOUND", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY",
    "ROUTE_RESOLVED", "LISTEN",     "CONNECT",    "DISCONNECT",    "ADDRINFO_QUERY"};

/// Default Q_Key of UD services (librdmacm's RDMA_UDP_QKEY).
constexpr QKey kDatagramQKey{0x0123'4567};

constexpr std::uint32_t kMaxTypeOfService = 255;
constexpr std::uint32_t kMaxAckTimeout = 31;

}  // namespace

std::string_view name_of(RdmaCmState state) { return kStateNames[static_cast<std::size_t>(state)]; }

RdmaCm::RdmaCm(ConnectionManager& connections, sa::Resolver& resolver, std::uint64_t seed,
               const RdmaCmLimits& limits)
    : connections_(connections),
      resolver_(resolver),
      limits_(limits),
      random_(seed),
      port_numbers_(random_()) {}

RdmaCm::~RdmaCm() = default;

RdmaCm::Id* RdmaCm::find(RdmaCmId id) {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : &found->second;
}

const RdmaCm::Id* RdmaCm::find(RdmaCmId id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : &found->second;
}

Result<RdmaCm::Id*> RdmaCm::in_state(RdmaCmId id, std::initializer_list<RdmaCmState> states,
                                     std::string_view call) {
  Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  if (std::ranges::find(states, of->state) == states.end()) {
    return fail(ErrorCode::InvalidArgument, "{} is not for an id in {}", call, name_of(of->state));
  }
  return of;
}

bool RdmaCm::report_event(RdmaCmId id, Id& of, RdmaCmEvent event) {
  if (event.id == RdmaCmId{}) {
    event.id = id;
  }
  if (event.group == GroupId{}) {
    event.context = of.context;
  }
  return !of.has_user || of.sink->take(event);
}

void RdmaCm::fail_with(RdmaCmId id, Id& of, RdmaCmEventType type, RdmaCmFailure failure) {
  static_cast<void>(report_event(id, of, {.type = type, .failure = failure}));
}

Result<RdmaCmId> RdmaCm::create(PortSpace space, QpType type, RdmaCmSink& sink,
                                std::uint64_t context) {
  if (ids_.size() >= limits_.ids) {
    return fail(ErrorCode::OutOfMemory, "a host has at most {} ids", limits_.ids);
  }
  const RdmaCmId id{++last_id_};
  Id& of = ids_[id];
  of.sink = &sink;
  of.context = context;
  of.space = space;
  of.type = type;
  of.starting_psn = Psn{static_cast<std::uint32_t>(random_()) & Psn::kMask};
  of.qkey = kDatagramQKey;
  return id;
}

void RdmaCm::cancel_queries(Id& of, Instant now) {
  if (of.resolution) {
    resolver_.cancel(*std::exchange(of.resolution, std::nullopt), now);
  }
  if (of.query) {
    if (const auto port = of.port ? ports_.find(*of.port) : ports_.end(); port != ports_.end()) {
      port->second.sa.cancel(*of.query, now);
    }
    of.query.reset();
  }
}

void RdmaCm::leave_groups(RdmaCmId id, const Id& of, Instant now) {
  if (of.groups == 0) {
    return;  // skips the search for groups of this id
  }
  std::vector<GroupId> left;
  for (const auto& [number, group] : groups_) {
    if (group.id == id) {
      left.push_back(number);
    }
  }
  for (const GroupId group : left) {
    static_cast<void>(leave(group, now));
  }
}

void RdmaCm::erase_accepted(RdmaCmId id, const Id& of) {
  const auto [first, last] = accepted_.equal_range(of.qpn);
  const auto own =
      std::find_if(first, last, [id](const auto& accepted) { return accepted.second == id; });
  if (own != last) {
    accepted_.erase(own);
  }
}

Result<void> RdmaCm::destroy(RdmaCmId id, Instant now) {
  Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  leave_groups(id, *of, now);
  cancel_queries(*of, now);
  if (of->connection) {
    static_cast<void>(connections_.destroy(*of->connection, now));
  }
  if (of->state == RdmaCmState::Listen && of->space == PortSpace::Tcp) {
    // perftest's UD connections follow one of RC at the same port number, and ask before the peer
    // listens if that has no CPU.
    connections_.expect_listener(service_id_of(PortSpace::Udp, of->claimed_port), now);
  }
  erase_accepted(id, *of);
  port_numbers_.release(id, of->space, of->claimed_port);
  ids_.erase(id);
  return {};
}

void RdmaCm::remove_devices(Instant now) {
  std::vector<RdmaCmId> all;
  for (auto& [id, of] : ids_) {
    all.push_back(id);
    if (of.port || of.state == RdmaCmState::Listen) {
      static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::DeviceRemoval}));
    }
  }
  for (const RdmaCmId id : all) {
    static_cast<void>(destroy(id, now));
  }
}

Result<void> RdmaCm::set_sink(RdmaCmId id, RdmaCmSink& sink) {
  Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  of->sink = &sink;
  return {};
}

Result<void> RdmaCm::set_context(RdmaCmId id, std::uint64_t context) {
  Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  of->context = context;
  of->has_user = true;
  return {};
}

Result<void> RdmaCm::set_option(RdmaCmId id, RdmaCmOption option, std::uint32_t value) {
  Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  const auto at_most = [&](std::uint32_t most) -> Result<void> {
    return value <= most
               ? Result<void>{}
               : fail(ErrorCode::InvalidArgument, "the option takes 0 to {}, not {}", most, value);
  };
  Result<void> set;
  switch (option) {
    case RdmaCmOption::TypeOfService:
      if (set = at_most(kMaxTypeOfService); set) {
        of->type_of_service = static_cast<std::uint8_t>(value);
      }
      return set;
    case RdmaCmOption::AckTimeout:
      if (set = at_most(kMaxAckTimeout); set) {
        of->ack_timeout = static_cast<std::uint8_t>(value);
      }
      return set;
    case RdmaCmOption::ReuseAddress:
    case RdmaCmOption::AfOnly:
      if (of->claimed_port != 0) {
        return fail(ErrorCode::InvalidArgument, "the id is bound already: set this before");
      }
      if (set = at_most(1); set) {
        (option == RdmaCmOption::AfOnly ? of->is_af_only : of->reuses_address) = value != 0;
      }
      return set;
  }
  return fail(ErrorCode::NotSupported, "there is no such option");
}

Result<RdmaCmIdInfo> RdmaCm::info(RdmaCmId id) const {
  const Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  RdmaCmIdInfo info{.state = of->state,
                    .space = of->space,
                    .qp_type = of->type,
                    .device = {},
                    .port = {},
                    .pkey = of->pkey,
                    .source = of->source,
                    .destination = of->destination,
                    .sgid = of->sgid,
                    .dgid = of->dgid,
                    .paths = of->paths};
  if (const auto port = of->port ? ports_.find(*of->port) : ports_.end(); port != ports_.end()) {
    info.device = port->second.device;
    info.port = port->second.number;
  }
  return info;
}

Result<void> RdmaCm::take_port(RdmaCmId id, Id& of) {
  const auto port = port_numbers_.claim(id, of.space,
                                        {.address = of.source,
                                         .type = of.type,
                                         .af_only = of.is_af_only,
                                         .reuses_address = of.reuses_address,
                                         .listens = false});
  if (!port) {
    return std::unexpected(port.error());
  }
  of.claimed_port = *port;
  set_port_number(of.source, *port);
  return {};
}

/// Binds the id to the port that has its source address. Unspecified addresses select no port, and
/// neither does a loopback address, as in a kernel; libfabric relies on this to find the host's
/// external address.
Result<void> RdmaCm::bind_to_port_of(Id& of) {
  const auto* const ip = std::get_if<IpEndpoint>(&of.source);
  if (is_wildcard(of.source) || (ip != nullptr && is_own_loopback(ip->address))) {
    return {};
  }
  if (const auto* const ib = std::get_if<IbEndpoint>(&of.source)) {
    for (const auto& [key, port] : ports_) {
      const std::vector<Gid>& gids = port.sa.port().gids;
      if (std::ranges::find(gids, ib->gid) != gids.end()) {
        of.port = key;
        of.sgid = ib->gid;
        return {};
      }
    }
    return fail(ErrorCode::AddressNotAvailable, "no port of this host has {}",
                to_string(of.source));
  }
  const auto own = resolver_.find_own(ip->address);
  if (!own) {
    return fail(ErrorCode::AddressNotAvailable, "{} is not an address of this host",
                to_string(ip->address));
  }
  of.port = PortKey{own->interface.port.value()};
  of.pkey = own->interface.pkey;
  if (const auto port = ports_.find(*of.port); port != ports_.end()) {
    const std::vector<Gid>& gids = port->second.sa.port().gids;
    of.sgid = gids.empty() ? Gid{} : gids.front();
  }
  return {};
}

/// The address by which peers know this host: a loopback address is replaced by the host's first
/// address of the family that is not link-local.
IpAddress RdmaCm::own_address(const IpAddress& address) const {
  if (!is_own_loopback(address)) {
    return address;
  }
  for (const sa::Resolver::Own& own : resolver_.own_addresses()) {
    const IpAddress& one = own.address.address;
    if (one.family() == address.family() && !one.is_link_local()) {
      return one;
    }
  }
  return address;
}

Result<void> RdmaCm::bind(RdmaCmId id, const SocketAddress& address, Instant now) {
  auto bound = take_address(id, address);
  if (bound) {
    const Id& of = *find(id);
    connections_.expect_listener(service_id_of(of.space, of.source), now);
  }
  return bound;
}

Result<void> RdmaCm::take_address(RdmaCmId id, const SocketAddress& address) {
  auto of = in_state(id, {RdmaCmState::Idle}, "bind");
  if (!of) {
    return std::unexpected(of.error());
  }
  if (!is_given(address)) {
    return fail(ErrorCode::InvalidArgument, "an address to bind to is IPv4, IPv6 or AF_IB");
  }
  Id& bound = **of;
  bound.source = address;
  Result<void> done = bind_to_port_of(bound);
  if (done) {
    done = take_port(id, bound);
  }
  if (!done) {
    bound.source = {};
    bound.port.reset();
    bound.sgid = {};
    return done;
  }
  bound.state = RdmaCmState::AddressBound;
  return {};
}

}  // namespace weft::cm
