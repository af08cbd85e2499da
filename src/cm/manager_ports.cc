// The manager's ports: addresses, ClassPortInfo, and the QP attributes that depend on them.

#include <algorithm>
#include <utility>

#include "cm/manager.h"
#include "wire/mad/class_port_info.h"

namespace weft::cm {
namespace {

template <class Value>
[[nodiscard]] std::optional<std::uint16_t> place_of(const std::vector<Value>& table, auto matches) {
  const auto found = std::ranges::find_if(table, matches);
  return found == table.end() ? std::nullopt
                              : std::optional{static_cast<std::uint16_t>(found - table.begin())};
}

}  // namespace

bool ConnectionManager::Impl::Port::has(const Gid& gid) const { return gid_index(gid).has_value(); }

bool ConnectionManager::Impl::Port::has(Lid lid) const {
  return lid.value() >> address_.lmc == address_.lid.value() >> address_.lmc && lid.is_unicast();
}

std::optional<std::uint16_t> ConnectionManager::Impl::Port::gid_index(const Gid& gid) const {
  return place_of(address_.gids, [&gid](const Gid& each) { return each == gid && !gid.is_zero(); });
}

/// Index of the P_Key itself, or else of one for the same partition (IBTA vol 1 §10.9.3).
std::optional<std::uint16_t> ConnectionManager::Impl::Port::pkey_index(PKey pkey) const {
  const auto same = place_of(address_.pkeys, [pkey](PKey each) { return each == pkey; });
  return same ? same : place_of(address_.pkeys, [pkey](PKey each) { return each.matches(pkey); });
}

namespace {

/// ClassPortInfo:CapabilityMask of this class (IBTA vol 1 §13.4.8.1, §16.7).
enum class CmCapability : std::uint16_t {
  ReliableConnections = 1U << 9,
  UnreliableConnections = 1U << 12,
  ServiceIdResolution = 1U << 13,
};
constexpr std::uint16_t kCapabilities =
    static_cast<std::uint16_t>(CmCapability::ReliableConnections) |
    static_cast<std::uint16_t>(CmCapability::UnreliableConnections) |
    static_cast<std::uint16_t>(CmCapability::ServiceIdResolution);
constexpr std::uint8_t kResponseTime = 18;  // exponent, about 1 s; policy
constexpr std::uint16_t kClassPortInfo = 1;

/// Answers a Get of any attribute. Requesters are never redirected.
void answer_get(mad::MadMessage& message) {
  const wire::MadHeader header = message.header();
  const auto data = std::span{message.mad}.subspan<wire::kSizeOf<wire::MadHeader>>();
  std::ranges::fill(data, std::byte{});
  if (header.class_version != wire::kCmClassVersion) {
    message.set_status(wire::kMadStatusBadVersion);
  } else if (header.attribute_id != kClassPortInfo) {
    message.set_status(wire::kMadStatusMethodAttributeUnsupported);
  } else {
    const wire::ClassPortInfo info{.class_version = wire::kCmClassVersion,
                                   .capability_mask = kCapabilities,
                                   .resp_time_value = kResponseTime};
    wire::pack(info, data.first<wire::kSizeOf<wire::ClassPortInfo>>());
  }
}

}  // namespace

const mad::MadMessage* ConnectionManager::Impl::Port::handle(mad::MadRequest& request) {
  if (request.message.header().method == wire::MadMethod::Get) {
    answer_get(request.message);
    return &request.message;
  }
  const auto self = shared_from_this();  // keeps the port alive if a handler removes it
  Impl& impl = impl_;
  // A limited member's P_Key differs from the port's own one, which the answer must use (§10.9.3).
  mad::MadAddress source = request.source;
  if (const auto index = pkey_index(source.pkey)) {
    source.pkey = address_.pkeys[*index];
  }
  impl.receive({.port = *this,
                .source = source,
                .mad = request.message.mad,
                .header = request.message.header(),
                .now = request.now});
  impl.run(request.now);
  return nullptr;
}

Result<void> ConnectionManager::Impl::add_port(PortKey key, mad::ManagementInterface& gsi,
                                               const PortAddress& address) {
  if (ports_.contains(key)) {
    return fail(ErrorCode::Exists, "port {} was added before", key.value());
  }
  const auto port = std::make_shared<Port>(*this, key, gsi, address);
  const auto agent =
      gsi.register_agent({.mgmt_class = wire::ManagementClass::ComMgt,
                          .class_version = wire::kCmClassVersion,
                          .methods = mad::methods({wire::MadMethod::Send, wire::MadMethod::Get}),
                          .accepts_any_version = true,
                          .keeps_transaction_ids = true,
                          .name = "communication manager"},
                         port.get());
  if (!agent) {
    return std::unexpected(agent.error());
  }
  port->agent_ = *agent;
  ports_.emplace(key, port);
  return {};
}

Result<void> ConnectionManager::Impl::update_port(PortKey key, const PortAddress& address) {
  Port* const port = find_port(key);
  if (port == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "there is no port {}", key.value());
  }
  port->address_ = address;
  return {};
}

Result<void> ConnectionManager::Impl::remove_port(PortKey key, Instant now) {
  const auto found = ports_.find(key);
  if (found == ports_.end()) {
    return fail(ErrorCode::NoSuchDevice, "there is no port {}", key.value());
  }
  const auto port = found->second;
  ports_.erase(found);
  return port->gsi_.unregister_agent(port->agent_, now);
}

ConnectionManager::Impl::Port* ConnectionManager::Impl::find_port(PortKey key) {
  const auto found = ports_.find(key);
  return found == ports_.end() ? nullptr : found->second.get();
}

const ConnectionManager::Impl::Port* ConnectionManager::Impl::find_port(PortKey key) const {
  const auto found = ports_.find(key);
  return found == ports_.end() ? nullptr : found->second.get();
}

/// Finds the port by source GID, or by source LID if the path has no GID.
const ConnectionManager::Impl::Port* ConnectionManager::Impl::find_port(const Path& path) const {
  const auto found = std::ranges::find_if(ports_, [&path](const auto& entry) {
    return path.sgid.is_zero() ? entry.second->has(path.slid) : entry.second->has(path.sgid);
  });
  return found == ports_.end() ? nullptr : found->second.get();
}

Result<const ConnectionManager::Impl::Port*> ConnectionManager::Impl::port_of(
    const Path& path) const {
  const Port* const port = find_port(path);
  if (port == nullptr) {
    return fail(ErrorCode::NoSuchDevice,
                "no port has the path's source GID, or without one its "
                "source LID {}",
                path.slid.value());
  }
  if (!port->has(path.slid)) {
    return fail(ErrorCode::InvalidArgument,
                "the path begins at LID {}, but the port of its source GID has {}",
                path.slid.value(), port->address().lid.value());
  }
  if (!port->pkey_index(path.pkey)) {
    return fail(ErrorCode::InvalidArgument, "the path's port is in no partition of P_Key {:#x}",
                path.pkey.value());
  }
  return port;
}

namespace {

[[nodiscard]] AddressVector qp_address(const Path& path, const PortAddress& port,
                                       std::uint16_t sgid_index) {
  AddressVector address{
      .dlid = path.dlid,
      .sl = path.sl,
      .source_path_bits = static_cast<std::uint8_t>(path.slid.value() & ((1U << port.lmc) - 1)),
      .static_rate = path.rate,
      .port = port.number,
      .is_global = path.is_global(),
  };
  if (address.is_global) {
    address.grh = {.dgid = path.dgid,
                   .flow_label = path.flow_label,
                   .sgid_index = static_cast<std::uint8_t>(sgid_index),
                   .hop_limit = path.hop_limit,
                   .traffic_class = path.traffic_class};
  }
  return address;
}

[[nodiscard]] bool has_requester(QpType type) {
  return type == QpType::Rc || type == QpType::XrcInitiator;
}

[[nodiscard]] bool has_responder(QpType type) {
  return type == QpType::Rc || type == QpType::XrcTarget;
}

void fill_init(QpModification& to, const Link& link) {
  using enum QpAttribute;
  to.mask |= QpAttributeMask{PKeyIndex} | Port | RemoteAccess;
  to.attributes.access = Access::RemoteWrite;
  if (link.responder_resources != 0) {
    to.attributes.access |= Flags{Access::RemoteRead} | Access::RemoteAtomic;
  }
}

void fill_rtr(QpModification& to, const Link& link) {
  using enum QpAttribute;
  to.mask |= QpAttributeMask{AddressVector} | PathMtu | DestQpn | RqPsn;
  to.attributes.path_mtu = link.primary.mtu;
  to.attributes.dest_qpn = link.remote_qpn;
  to.attributes.rq_psn = link.rq_psn;
  if (has_responder(link.qp_type)) {
    to.mask |= QpAttributeMask{MaxDestRdAtomic} | MinRnrTimer;
    to.attributes.max_dest_rd_atomic = link.responder_resources;
    to.attributes.min_rnr_timer = 0;
  }
  if (link.alternate) {
    to.mask |= AlternatePath;
  }
}

void fill_rts(QpModification& to, const Link& link) {
  using enum QpAttribute;
  if (link.has_loaded_alternate) {
    to.mask |= QpAttributeMask{AlternatePath} | PathMigrationState;
    to.attributes.migration = MigrationState::Rearm;
    return;
  }
  to.mask |= SqPsn;
  to.attributes.sq_psn = link.sq_psn;
  if (has_requester(link.qp_type) || has_responder(link.qp_type)) {
    to.mask |= Timeout;  // also for an XRC target (IBTA vol 1 annex A14)
    to.attributes.timeout = TimeoutExponent{link.ack_timeout};
  }
  if (has_requester(link.qp_type)) {
    to.mask |= QpAttributeMask{RetryCount} | RnrRetry | MaxQpRdAtomic;
    to.attributes.retry_count = link.retry_count;
    to.attributes.rnr_retry = link.rnr_retry_count;
    to.attributes.max_rd_atomic = link.initiator_depth;
  }
  if (link.alternate) {
    to.mask |= PathMigrationState;
    to.attributes.migration = MigrationState::Rearm;
  }
}

/// True in states in which all attributes for the transition are known (R-CM-3). The passive side
/// knows them from the REQ on.
[[nodiscard]] bool is_known_for(QpState target, State state) {
  const bool is_requested = state == State::ReqSent || state == State::MraReqRcvd;
  const bool is_connecting = state >= State::ReqRcvd && state <= State::MraLapRcvd;
  return (target == QpState::Init && is_requested) || (is_connecting && !is_requested);
}

}  // namespace

Result<QpModification> ConnectionManager::Impl::init_qp_attributes(CmId id, QpState target) const {
  const Connection* const connection = find(id);
  if (connection == nullptr || connection->is_detached) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  if (target == QpState::Reset || !is_known_for(target, connection->state)) {
    return fail(ErrorCode::InvalidArgument,
                "in state {} the attributes for a transition to {} are not known",
                name_of(connection->state), name_of(target));
  }
  const Link& link = connection->link;
  const Port* const port = find_port(link.port);
  if (port == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "the connection's port {} was removed", link.port.value());
  }
  QpModification to{.mask = QpAttribute::State, .attributes = {.state = target}};
  to.attributes.port = port->address().number;
  to.attributes.pkey_index = port->pkey_index(link.primary.pkey).value_or(0);
  to.attributes.address =
      qp_address(link.primary, port->address(), port->gid_index(link.primary.sgid).value_or(0));
  if (link.alternate) {
    const Port* const other = find_port(*link.alternate);
    const Port& alternate = other == nullptr ? *port : *other;
    to.attributes.alternate_port = alternate.address().number;
    to.attributes.alternate_pkey_index = alternate.pkey_index(link.alternate->pkey).value_or(0);
    to.attributes.alternate_timeout = TimeoutExponent{link.alternate_ack_timeout};
    to.attributes.alternate_address =
        qp_address(*link.alternate, alternate.address(),
                   alternate.gid_index(link.alternate->sgid).value_or(0));
  }
  if (target == QpState::Init) {
    fill_init(to, link);
  } else if (target == QpState::Rtr) {
    fill_rtr(to, link);
  } else {
    fill_rts(to, link);
    if (link.has_loaded_alternate) {  // the QP is already in RTS
      to.mask = to.mask.without(QpAttribute::State);
    }
  }
  return to;
}

}  // namespace weft::cm
