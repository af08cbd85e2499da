// Translation of the connection manager's events to RDMA-CM events.

#include <utility>

#include "cm/rdma/header_addresses.h"
#include "cm/rdma/rdma_cm.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/layout.h"

namespace weft::cm {
namespace {

/// Service timeout of the MRA that gives a user time to answer: 4.096 us * 2^24, about 69 s;
/// policy, the value of Linux.
constexpr std::uint8_t kUsersTime = 24;

/// Removes RDMA-CM's header from private data.
[[nodiscard]] std::optional<wire::RdmaCmHeader> take_header(std::vector<std::byte>& data) {
  const auto header = wire::parse<wire::RdmaCmHeader>(data);
  if (!header || header->major_version != 0 || !has_ip_addresses(*header)) {
    return std::nullopt;
  }
  data.erase(data.begin(), data.begin() + wire::kSizeOf<wire::RdmaCmHeader>);
  return *header;
}

[[nodiscard]] AddressVector address_of(const Path& path, PortNumber port) {
  return {
      .dlid = path.dlid,
      .sl = path.sl,
      .source_path_bits = static_cast<std::uint8_t>(path.slid.value() & 0x7F),
      .static_rate = path.rate,
      .port = port,
      .is_global = path.is_global(),
      .grh = {.dgid = path.dgid,
              .flow_label = path.flow_label,
              .sgid_index = 0,
              .hop_limit = path.hop_limit,
              .traffic_class = path.traffic_class}
  };
}

}  // namespace

Handled RdmaCm::handle(CmId connection, const CmEvent& event, Instant now) {
  if (event.type == CmEventType::ReqReceived) {
    return request_received(connection, event, now);
  }
  if (event.type == CmEventType::SidrReqReceived) {
    return service_request_received(connection, event, now);
  }
  const RdmaCmId id{static_cast<std::uint32_t>(event.context)};
  Id* const of = find(id);
  return of == nullptr ? Handled::Destroy : connection_event(id, *of, event, now);
}

/// Reports the new id to the listener's user. If the queue has no room, the request is dropped and
/// the peer retries.
Handled RdmaCm::make_child(CmId connection, RdmaCmId listener, Id child, RdmaCmEvent event) {
  if (ids_.size() >= limits_.ids) {
    return Handled::DestroyNoResources;
  }
  const RdmaCmId id{++last_id_};
  child.connection = connection;
  child.state = RdmaCmState::Connect;
  child.has_user = false;
  child.starting_psn = Psn{static_cast<std::uint32_t>(random_()) & Psn::kMask};
  if (!connections_.set_observer(connection, *this, id.value())) {
    return Handled::Destroy;
  }
  event.type = RdmaCmEventType::ConnectRequest;
  event.id = id;
  event.listener = listener;
  Id& listening = *find(listener);
  if (!report_event(listener, listening, std::move(event))) {
    return Handled::DestroyNoResources;
  }
  child.sink = listening.sink;
  ids_.emplace(id, std::move(child));
  return Handled::Keep;
}

/// Sets a child's addresses from its listener and RDMA-CM's header. Returns false if the header is
/// missing or addressed to another port.
bool RdmaCm::address_child(Id& child, const Id& listening, std::uint64_t service_id,
                           std::vector<std::byte>& data) const {
  child.space = listening.space;
  child.type = listening.type;
  child.qkey = listening.qkey;
  child.type_of_service = listening.type_of_service;
  child.ack_timeout = listening.ack_timeout;
  if (std::holds_alternative<IbEndpoint>(listening.source)) {
    child.source = IbEndpoint{.gid = child.sgid,
                              .pkey = child.pkey,
                              .service_id = service_id,
                              .service_mask = kExactServiceId};
    child.destination = IbEndpoint{.gid = child.dgid, .pkey = child.pkey};
    return true;
  }
  const auto header = take_header(data);
  if (!header) {
    return false;
  }
  child.source = IpEndpoint{.address = address_in(*header, header->destination_address),
                            .port = port_number_of(listening.source)};
  child.peer_address = address_in(*header, header->source_address);
  child.destination = IpEndpoint{.address = child.peer_address, .port = header->source_port};
  return true;
}

Handled RdmaCm::request_received(CmId connection, const CmEvent& event, Instant now) {
  const auto& request = std::get<ReqReceived>(event.details);
  const RdmaCmId listener{static_cast<std::uint32_t>(event.context)};
  const Id* const listening = find(listener);
  if (listening == nullptr || listening->type != request.qp_type) {
    return Handled::Destroy;
  }
  Id child;
  child.port = request.port;
  child.pkey = request.primary.pkey;
  child.sgid = request.primary.sgid;
  child.dgid = request.primary.dgid;
  child.paths = {request.primary};
  if (request.alternate) {
    child.paths.push_back(*request.alternate);
  }
  std::vector<std::byte> data = event.private_data;
  if (!address_child(child, *listening, request.service_id, data)) {
    return Handled::Destroy;
  }
  const Handled handled =
      make_child(connection, listener, std::move(child),
                 {
                     .parameters = {.qpn = request.remote_qpn,
                                    .qkey = {},
                                    .has_srq = request.srq,
                                    .responder_resources = request.responder_resources,
                                    .initiator_depth = request.initiator_depth,
                                    .flow_control = request.flow_control,
                                    .retry_count = request.retry_count,
                                    .rnr_retry_count = request.rnr_retry_count,
                                    .ece = request.ece,
                                    .private_data = std::move(data)}
  });
  if (handled == Handled::Keep) {
    static_cast<void>(connections_.send_mra(connection, kUsersTime, {}, now, MraTime::OnRetry));
  }
  return handled;
}

Handled RdmaCm::service_request_received(CmId connection, const CmEvent& event, Instant /*now*/) {
  const auto& request = std::get<SidrReqReceived>(event.details);
  const RdmaCmId listener{static_cast<std::uint32_t>(event.context)};
  const Id* const listening = find(listener);
  if (listening == nullptr || listening->type != QpType::Ud) {
    return Handled::Destroy;
  }
  Id child;
  child.port = request.port;
  child.pkey = request.pkey;
  child.dgid = request.sgid.value_or(Gid{});
  if (const auto port = ports_.find(request.port);
      port != ports_.end() && !port->second.sa.port().gids.empty()) {
    child.sgid = port->second.sa.port().gids.front();
  }
  std::vector<std::byte> data = event.private_data;
  if (!address_child(child, *listening, request.service_id, data)) {
    return Handled::Destroy;
  }
  return make_child(connection, listener, std::move(child),
                    {.parameters = {.private_data = std::move(data)}});
}

void RdmaCm::report_rejected(RdmaCmId id, Id& of, const CmEvent& event) {
  const auto reason = std::get<RejReceived>(event.details).reason;
  static_cast<void>(report_event(id, of,
                                 {.type = RdmaCmEventType::Rejected,
                                  .status = static_cast<std::uint8_t>(reason),
                                  .parameters = {.private_data = event.private_data}}));
}

void RdmaCm::disconnected(RdmaCmId id, Id& of) {
  if (of.state == RdmaCmState::Connect) {
    of.state = RdmaCmState::Disconnect;
    static_cast<void>(report_event(id, of, {.type = RdmaCmEventType::Disconnected}));
  }
}

Handled RdmaCm::connection_event(RdmaCmId id, Id& of, const CmEvent& event, Instant now) {
  RdmaCmEvent reported{.parameters = {.private_data = event.private_data}};
  switch (event.type) {
    case CmEventType::RepReceived: {
      const auto& reply = std::get<RepReceived>(event.details);
      static_cast<void>(
          connections_.send_mra(*of.connection, kUsersTime, {}, now, MraTime::OnRetry));
      reported.type = RdmaCmEventType::ConnectResponse;
      reported.parameters.qpn = reply.remote_qpn;
      reported.parameters.has_srq = reply.srq;
      reported.parameters.responder_resources = reply.responder_resources;
      reported.parameters.initiator_depth = reply.initiator_depth;
      reported.parameters.flow_control = reply.flow_control ? 1 : 0;
      reported.parameters.rnr_retry_count = reply.rnr_retry_count;
      reported.parameters.ece = reply.ece;
      break;
    }
    case CmEventType::RtuReceived:
    case CmEventType::UserEstablished:
      erase_accepted(id, of);
      reported.type = RdmaCmEventType::Established;
      break;
    case CmEventType::RejReceived:
      if (!follow_redirection(id, of, event, now)) {
        report_rejected(id, of, event);
      }
      return Handled::Keep;
    case CmEventType::ReqTimeout:
    case CmEventType::RepTimeout:
    case CmEventType::SidrReqTimeout:
      reported.type = RdmaCmEventType::Unreachable;
      reported.failure = RdmaCmFailure::TimedOut;
      break;
    case CmEventType::DreqReceived:
    case CmEventType::DreqTimeout:
    case CmEventType::DrepReceived:
      disconnected(id, of);
      return Handled::Keep;
    case CmEventType::TimewaitExit:
      reported.type = RdmaCmEventType::TimewaitExit;
      break;
    case CmEventType::SidrRepReceived:
      service_reply_received(id, of, event);
      return Handled::Keep;
    default:
      return Handled::Keep;
  }
  static_cast<void>(report_event(id, of, std::move(reported)));
  return Handled::Keep;
}

void RdmaCm::service_reply_received(RdmaCmId id, Id& of, const CmEvent& event) {
  const auto& reply = std::get<SidrRepReceived>(event.details);
  if (reply.status != wire::SidrStatus::Success) {
    static_cast<void>(report_event(id, of,
                                   {.type = RdmaCmEventType::Unreachable,
                                    .status = static_cast<std::uint8_t>(reply.status),
                                    .parameters = {.private_data = event.private_data}}));
    return;
  }
  of.qkey = reply.qkey;
  const auto port = ports_.find(*of.port);
  static_cast<void>(report_event(
      id, of,
      {
          .type = RdmaCmEventType::Established,
          .parameters = {.qpn = reply.qpn,
                         .qkey = reply.qkey,
                         .ece = reply.ece,
                         .private_data = event.private_data},
          .address = address_of(of.paths.front(),
                                port == ports_.end() ? PortNumber{}
            : port->second.number)
  }));
}

}  // namespace weft::cm
