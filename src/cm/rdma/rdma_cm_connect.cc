// Calls that establish, answer and end connections.

#include <algorithm>
#include <array>
#include <utility>

#include "cm/rdma/rdma_cm.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/layout.h"

namespace weft::cm {
namespace {

/// Response timeout (4.096 us * 2^20 = 4.3 s) and retries of CM messages; policy, the values of
/// Linux.
constexpr std::uint8_t kResponseTimeout = 20;
constexpr std::uint8_t kMaxRetries = 15;
constexpr Duration kServiceTimeout = Duration::milliseconds(4'295);

/// Maximum of 3-bit counts.
constexpr std::uint8_t kMaxCount = 7;

[[nodiscard]] wire::RdmaCmAddress octets_of(const IpAddress& address) {
  wire::RdmaCmAddress octets{};
  const auto from = address.octets();
  std::ranges::copy(from, octets.end() - static_cast<std::ptrdiff_t>(from.size()));
  return octets;
}

[[nodiscard]] Result<void> check_private_data(ByteSpan private_data, std::size_t most) {
  if (private_data.size() > most) {
    return fail(ErrorCode::InvalidArgument, "{} bytes of private data: at most {} are possible",
                private_data.size(), most);
  }
  return {};
}

}  // namespace

/// Prepends RDMA-CM's header to the user's private data. AF_IB users build their own header.
Result<std::vector<std::byte>> RdmaCm::request_data(const Id& of, ByteSpan private_data,
                                                    std::size_t most) const {
  const auto* const destination = std::get_if<IpEndpoint>(&of.destination);
  std::vector<std::byte> data;
  if (destination != nullptr) {
    const auto& source = std::get<IpEndpoint>(of.source);
    const auto header = wire::pack(
        wire::RdmaCmHeader{.major_version = 0,
                           .minor_version = 0,
                           .ip_version = static_cast<std::uint8_t>(of.peer_address.family()),
                           .source_port = source.port,
                           .source_address = octets_of(own_address(source.address)),
                           .destination_address = octets_of(of.peer_address)});
    data.assign(header.begin(), header.end());
  }
  if (auto fits = check_private_data(private_data, most - data.size()); !fits) {
    return std::unexpected(fits.error());
  }
  data.insert(data.end(), private_data.begin(), private_data.end());
  return data;
}

Result<void> RdmaCm::listen(RdmaCmId id, unsigned backlog, Instant now) {
  auto in = in_state(id, {RdmaCmState::Idle, RdmaCmState::AddressBound}, "listening");
  if (!in) {
    return std::unexpected(in.error());
  }
  if ((*in)->state == RdmaCmState::Idle) {
    if (auto bound = take_address(id, IpEndpoint{}); !bound) {
      return bound;
    }
  }
  Id& of = **in;
  if (auto sole = port_numbers_.listen(id, of.space, of.claimed_port); !sole) {
    return sole;
  }
  ListenParameters parameters{.service_id = service_id_of(of.space, of.source)};
  parameters.drops_excess_requests = true;  // so that the peer retries, when there may be room
  if (backlog != 0) {
    parameters.backlog = backlog;
  }
  if (const auto* const ip = std::get_if<IpEndpoint>(&of.source)) {
    wire::RdmaCmHeader value;
    wire::RdmaCmHeader mask;
    if (!ip->address.is_unspecified() || ip->address.is_v4() || of.is_af_only) {
      value.ip_version = static_cast<std::uint8_t>(ip->address.family());
      mask.ip_version = 0xF;
    }
    if (!ip->address.is_unspecified()) {
      value.destination_address = octets_of(own_address(ip->address));
      mask.destination_address.fill(std::byte{0xFF});
    }
    const auto values = wire::pack(value);
    const auto masks = wire::pack(mask);
    parameters.match = {
        .value = {values.begin(), values.end()},
          .mask = {masks.begin(),  masks.end() }
    };
  } else {
    parameters.service_mask = std::get<IbEndpoint>(of.source).service_mask;
    parameters.qp_type = of.type;
  }
  const auto connection = connections_.create(*this, id.value());
  if (!connection) {
    return std::unexpected(connection.error());
  }
  if (auto listening = connections_.listen(*connection, parameters); !listening) {
    static_cast<void>(connections_.destroy(*connection, now));
    return std::unexpected(listening.error());
  }
  of.connection = *connection;
  of.state = RdmaCmState::Listen;
  return {};
}

Result<void> RdmaCm::connect(RdmaCmId id, const ConnectionParameters& parameters, Instant now) {
  auto in = in_state(id, {RdmaCmState::RouteResolved}, "connecting");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  const auto connection = connections_.create(*this, id.value());
  if (!connection) {
    return std::unexpected(connection.error());
  }
  of.connection = *connection;
  auto sent = of.type == QpType::Ud ? send_service_request(of, parameters, now)
                                    : send_request(of, parameters, now);
  if (!sent) {
    static_cast<void>(connections_.destroy(*connection, now));
    of.connection.reset();
    return sent;
  }
  if (of.type != QpType::Ud) {
    of.pending_request = parameters;
  }
  of.qpn = parameters.qpn;
  of.state = RdmaCmState::Connect;
  return {};
}

Result<void> RdmaCm::send_request(Id& of, const ConnectionParameters& parameters, Instant now) {
  const auto data = request_data(of, parameters.private_data, kReqPrivateData);
  if (!data) {
    return std::unexpected(data.error());
  }
  RequestParameters request{.primary = of.paths.front(),
                            .alternate = std::nullopt,
                            .manager = of.manager,
                            .service_id = service_id_of(of.space, of.destination),
                            .qp_type = of.type,
                            .qpn = parameters.qpn,
                            .starting_psn = of.starting_psn,
                            .responder_resources = parameters.responder_resources,
                            .initiator_depth = parameters.initiator_depth,
                            .remote_cm_response_timeout = kResponseTimeout,
                            .local_cm_response_timeout = kResponseTimeout,
                            .retry_count = std::min(parameters.retry_count, kMaxCount),
                            .rnr_retry_count = std::min(parameters.rnr_retry_count, kMaxCount),
                            .max_cm_retries = kMaxRetries,
                            .flow_control = parameters.flow_control != 0,
                            .srq = parameters.has_srq,
                            .peer_to_peer = false,
                            .ece = parameters.ece,
                            .private_data = *data};
  if (of.paths.size() > 1) {
    request.alternate = of.paths[1];
  }
  return connections_.send_req(*of.connection, request, now);
}

Result<void> RdmaCm::send_service_request(Id& of, const ConnectionParameters& parameters,
                                          Instant now) {
  const auto data = request_data(of, parameters.private_data, kSidrReqPrivateData);
  if (!data) {
    return std::unexpected(data.error());
  }
  return connections_.send_sidr_req(*of.connection,
                                    {.path = of.paths.front(),
                                     .service_id = service_id_of(of.space, of.destination),
                                     .timeout = kServiceTimeout,
                                     .max_cm_retries = kMaxRetries,
                                     .private_data = *data},
                                    now);
}

Result<void> RdmaCm::accept(RdmaCmId id, const ConnectionParameters* parameters, Instant now) {
  auto in = in_state(id, {RdmaCmState::Connect}, "accepting");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  if (of.type == QpType::Ud) {
    return answer_service_request(of, parameters, now);
  }
  if (parameters == nullptr) {
    return connections_.send_rtu(*of.connection, {}, now);
  }
  const auto sent =
      connections_.send_rep(*of.connection,
                            {.qpn = parameters->qpn,
                             .starting_psn = of.starting_psn,
                             .responder_resources = parameters->responder_resources,
                             .initiator_depth = parameters->initiator_depth,
                             .target_ack_delay = 0,
                             .failover_accepted = 0,
                             .rnr_retry_count = std::min(parameters->rnr_retry_count, kMaxCount),
                             .flow_control = parameters->flow_control != 0,
                             .srq = parameters->has_srq,
                             .ece = parameters->ece,
                             .private_data = parameters->private_data},
                            now);
  if (sent) {
    of.qpn = parameters->qpn;
    accepted_.emplace(of.qpn, id);
  }
  return sent;
}

Result<void> RdmaCm::answer_service_request(Id& of, const ConnectionParameters* parameters,
                                            Instant now) {
  if (parameters == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a datagram service is identified by its QPN");
  }
  if (parameters->qkey != QKey{}) {
    of.qkey = parameters->qkey;
  }
  return connections_.send_sidr_rep(*of.connection,
                                    {.status = wire::SidrStatus::Success,
                                     .qpn = parameters->qpn,
                                     .qkey = of.qkey,
                                     .ece = parameters->ece,
                                     .additional_information = {},
                                     .private_data = parameters->private_data},
                                    now);
}

Result<void> RdmaCm::reject(RdmaCmId id, std::uint8_t reason, ByteSpan private_data, Instant now) {
  auto in = in_state(id, {RdmaCmState::Connect}, "rejecting");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  if (of.type == QpType::Ud) {
    return connections_.send_sidr_rep(*of.connection,
                                      {.status = wire::SidrStatus::Rejected,
                                       .additional_information = {},
                                       .private_data = private_data},
                                      now);
  }
  return connections_.send_rej(*of.connection,
                               {.reason = reason == 0 ? wire::RejectReason::ConsumerReject
                                                      : static_cast<wire::RejectReason>(reason),
                                .additional_information = {},
                                .private_data = private_data},
                               now);
}

/// Sends a DREQ, or a DREP if the peer sent a DREQ. Does nothing if both sides have disconnected.
Result<void> RdmaCm::disconnect(RdmaCmId id, Instant now) {
  auto in = in_state(id, {RdmaCmState::Connect, RdmaCmState::Disconnect}, "disconnecting");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  if (!of.connection || of.type == QpType::Ud) {
    return fail(ErrorCode::InvalidArgument, "the id has no connection");
  }
  if (auto pending_request = connections_.send_dreq(*of.connection, {}, now); !pending_request) {
    if (!connections_.send_drep(*of.connection, {}, now) && of.state != RdmaCmState::Disconnect) {
      return pending_request;
    }
  }
  return {};
}

Result<void> RdmaCm::notify(RdmaCmId id, AsyncEventType event, Instant now) {
  const Id* const of = find(id);
  if (of == nullptr || !of->connection) {
    return fail(ErrorCode::InvalidArgument, "the id has no connection");
  }
  return connections_.notify(*of->connection, event, now);
}

/// Ids of different hosts never share a QPN. If a QP was used by several ids in turn, the latest
/// one is meant.
void RdmaCm::communication_established(Qpn qpn, Instant now) {
  const auto [first, last] = accepted_.equal_range(qpn);
  for (auto accepted = first; accepted != last; ++accepted) {
    if (const Id* const of = find(accepted->second); of != nullptr && of->connection) {
      static_cast<void>(connections_.establish(*of->connection, now));
    }
  }
}

Result<QpModification> RdmaCm::qp_attributes(RdmaCmId id, QpState state) const {
  const Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  if (of->connection && of->type != QpType::Ud && of->state != RdmaCmState::Listen) {
    auto to = connections_.init_qp_attributes(*of->connection, state);
    if (to && state == QpState::Rtr) {
      to->attributes.rq_psn = of->starting_psn;  // sent to the peer later, in the REP
    }
    if (to && of->ack_timeout && to->mask.has(QpAttribute::Timeout)) {
      to->attributes.timeout = TimeoutExponent{*of->ack_timeout};
    }
    return to;
  }
  const auto port = of->port ? ports_.find(*of->port) : ports_.end();
  if (port == ports_.end()) {
    return fail(ErrorCode::InvalidArgument, "the id is bound to no port yet: resolve an address");
  }
  const std::vector<PKey>& pkeys = port->second.sa.port().pkeys;
  const auto found =
      std::ranges::find_if(pkeys, [&](PKey pkey) { return pkey.base() == of->pkey.base(); });
  if (found == pkeys.end()) {
    return fail(ErrorCode::InvalidArgument, "the port has P_Key {:#x} no more", of->pkey.value());
  }
  QpModification to{.mask = QpAttribute::State, .attributes = {.state = state}};
  if (state == QpState::Init) {
    to.mask |= QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port;
    to.attributes.pkey_index = static_cast<std::uint16_t>(found - pkeys.begin());
    to.attributes.port = port->second.number;
    if (of->type == QpType::Ud) {
      to.mask |= QpAttribute::QKey;
      to.attributes.qkey = of->qkey;
    } else {
      to.mask |= QpAttribute::RemoteAccess;
    }
  }
  return to;
}

}  // namespace weft::cm
