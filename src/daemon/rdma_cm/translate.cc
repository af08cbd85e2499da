#include "daemon/rdma_cm/translate.h"

#include <algorithm>
#include <cerrno>

namespace weft::daemon {
namespace {

// Path flags of verbs (IBV_PATH_FLAG_...).
constexpr std::uint32_t kPathOfMads = 1U << 0;
constexpr std::uint32_t kPrimaryPath = 1U << 1;
constexpr std::uint32_t kAlternatePath = 1U << 2;
constexpr std::uint32_t kBothWays = 1U << 3 | 1U << 5;  // outbound and inbound-reverse

constexpr std::uint32_t kQKeyBit = 1U << 6;  // IBV_QP_QKEY

[[nodiscard]] std::int32_t errno_of(cm::RdmaCmFailure failure) {
  switch (failure) {
    case cm::RdmaCmFailure::None:
      return 0;
    case cm::RdmaCmFailure::TimedOut:
      return ETIMEDOUT;
    case cm::RdmaCmFailure::NetworkUnreachable:
      return ENETUNREACH;
    case cm::RdmaCmFailure::NoSuchAddress:
      return EADDRNOTAVAIL;
    case cm::RdmaCmFailure::NetworkDown:
      return ENETDOWN;
    case cm::RdmaCmFailure::HostUnreachable:
      return EHOSTUNREACH;
    case cm::RdmaCmFailure::InvalidArgument:
      return EINVAL;
    case cm::RdmaCmFailure::NoSuchService:
      return ENOENT;
    case cm::RdmaCmFailure::Cancelled:
      return EINTR;
  }
  return EINVAL;
}

[[nodiscard]] uabi::RdmaCmAddressVector vector_of(const cm::QpAddress& address) {
  return {.dlid = address.dlid,
          .sl = address.sl,
          .source_path_bits = address.source_path_bits,
          .static_rate = address.static_rate,
          .port = address.port.value(),
          .is_global = address.is_global,
          .dgid = address.dgid,
          .flow_label = address.flow_label,
          .sgid_index = address.sgid_index,
          .hop_limit = address.hop_limit,
          .traffic_class = address.traffic_class};
}

[[nodiscard]] uabi::RdmaCmPath path_of(const cm::Path& path, bool is_primary) {
  return {.flags = kPathOfMads | kBothWays | (is_primary ? kPrimaryPath : kAlternatePath),
          .dgid = path.dgid,
          .sgid = path.sgid,
          .dlid = path.dlid,
          .slid = path.slid,
          .service_id = 0,
          .flow_label = path.flow_label,
          .hop_limit = path.hop_limit,
          .traffic_class = path.traffic_class,
          .is_reversible = path.is_reversible,
          .pkey = path.pkey,
          .qos_class = 0,
          .sl = path.sl,
          .mtu = static_cast<std::uint8_t>(path.mtu),
          .rate = path.rate,
          .packet_life_time = path.packet_life_time};
}

}  // namespace

std::optional<cm::PortSpace> port_space_of(std::uint16_t number) {
  for (const cm::PortSpace space :
       {cm::PortSpace::Ipoib, cm::PortSpace::Tcp, cm::PortSpace::Udp, cm::PortSpace::Ib}) {
    if (static_cast<std::uint16_t>(space) == number) {
      return space;
    }
  }
  return std::nullopt;
}

std::optional<cm::QpType> qp_type_of(std::uint8_t number) {
  for (const cm::QpType type : {cm::QpType::Rc, cm::QpType::Uc, cm::QpType::Ud,
                                cm::QpType::XrcInitiator, cm::QpType::XrcTarget}) {
    if (static_cast<std::uint8_t>(type) == number) {
      return type;
    }
  }
  return std::nullopt;
}

cm::SocketAddress address_of(const uabi::RdmaCmAddress& address) {
  switch (address.family) {
    case uabi::RdmaCmFamily::Ip4: {
      IpAddress::V4Octets octets{};
      std::copy_n(address.octets.begin(), octets.size(), octets.begin());
      return cm::IpEndpoint{.address = IpAddress{octets}, .port = address.port};
    }
    case uabi::RdmaCmFamily::Ip6:
      return cm::IpEndpoint{.address = IpAddress{address.octets},
                            .port = address.port,
                            .scope = address.scope,
                            .flow_info = address.flow_info};
    case uabi::RdmaCmFamily::Ib:
      return cm::IbEndpoint{.gid = Gid{address.octets},
                            .pkey = address.pkey,
                            .flow_info = address.flow_info,
                            .service_id = address.service_id,
                            .service_mask = address.service_mask,
                            .scope = address.scope};
    case uabi::RdmaCmFamily::None:
      break;
  }
  return {};
}

uabi::RdmaCmAddress address_of(const cm::SocketAddress& address) {
  uabi::RdmaCmAddress out;
  if (const auto* const ip = std::get_if<cm::IpEndpoint>(&address)) {
    out.family = ip->address.is_v4() ? uabi::RdmaCmFamily::Ip4 : uabi::RdmaCmFamily::Ip6;
    std::ranges::copy(ip->address.octets(), out.octets.begin());
    out.port = ip->port;
    out.scope = ip->scope;
    out.flow_info = ip->flow_info;
  } else if (const auto* const ib = std::get_if<cm::IbEndpoint>(&address)) {
    out.family = uabi::RdmaCmFamily::Ib;
    out.octets = ib->gid.octets();
    out.pkey = ib->pkey;
    out.flow_info = ib->flow_info;
    out.service_id = ib->service_id;
    out.service_mask = ib->service_mask;
    out.scope = ib->scope;
  }
  return out;
}

cm::ConnectionParameters parameters_of(const uabi::RdmaCmParameters& parameters,
                                       const uabi::RdmaCmEce& ece) {
  return {
      .qpn = Qpn{parameters.qpn.value() & 0xFF'FFFF},
      .qkey = parameters.qkey,
      .has_srq = parameters.has_srq,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .flow_control = parameters.flow_control,
      .retry_count = parameters.retry_count,
      .rnr_retry_count = parameters.rnr_retry_count,
      .ece = {.vendor_id = ece.vendor_id, .options = ece.options},
      .private_data = parameters.private_data.octets
  };
}

cm::Path path_of(const uabi::RdmaCmPath& path) {
  return {.sgid = path.sgid,
          .dgid = path.dgid,
          .slid = Lid{path.slid.value() & 0xFFFF},
          .dlid = Lid{path.dlid.value() & 0xFFFF},
          .sl = ServiceLevel{static_cast<std::uint8_t>(path.sl.value() & 0xF)},
          .pkey = path.pkey,
          .mtu = static_cast<wire::Mtu>(std::clamp<std::uint8_t>(path.mtu, 1, 5)),
          .rate = static_cast<std::uint8_t>(path.rate & 0x3F),
          .packet_life_time = static_cast<std::uint8_t>(path.packet_life_time & 0x3F),
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .flow_label = path.flow_label & 0xF'FFFF,
          .is_reversible = path.is_reversible};
}

uabi::RdmaCmIdState state_of(const cm::RdmaCmIdInfo& info) {
  uabi::RdmaCmIdState state{.device = info.device,
                            .port = info.port.value(),
                            .pkey = info.pkey,
                            .source = address_of(info.source),
                            .destination = address_of(info.destination),
                            .sgid = info.sgid,
                            .dgid = info.dgid,
                            .paths = {}};
  for (const cm::Path& path : info.paths) {
    state.paths.push_back(path_of(path, state.paths.empty()));
  }
  return state;
}

uabi::RdmaCmServices services_of(std::span<const cm::ServicePlace> places) {
  uabi::RdmaCmServices out;
  for (const cm::ServicePlace& place :
       places.first(std::min(places.size(), uabi::kMaxRdmaCmServices))) {
    out.services.push_back({.service_id = place.service_id, .gid = place.gid, .pkey = place.pkey});
  }
  return out;
}

std::optional<cm::RdmaCmEvent> event_of(const uabi::WriteRdmaCmEvent& written) {
  switch (written.type) {
    case uabi::RdmaCmEventType::AddrinfoResolved:
    case uabi::RdmaCmEventType::AddrinfoError:
    case uabi::RdmaCmEventType::User:
      return cm::RdmaCmEvent{.type = static_cast<cm::RdmaCmEventType>(written.type),
                             .context = written.uid,
                             .id = cm::RdmaCmId{written.id},
                             .status = written.status,
                             .argument = written.argument};
    default:
      return std::nullopt;
  }
}

uabi::RdmaCmQpAttributes attributes_of(const cm::RdmaCm::QpTransition& transition) {
  const cm::QpAttributes& from = transition.attributes;
  return {.mask = from.mask.bits() | (transition.qkey ? kQKeyBit : 0),
          .state = static_cast<std::uint32_t>(from.state),
          .path_mtu = static_cast<std::uint32_t>(from.path_mtu),
          .path_mig_state = static_cast<std::uint32_t>(from.migration),
          .qkey = transition.qkey.value_or(QKey{}),
          .rq_psn = from.rq_psn.value(),
          .sq_psn = from.sq_psn.value(),
          .destination = from.dest_qpn,
          .access_flags = from.access.bits(),
          .path = vector_of(from.address),
          .alternate_path = vector_of(from.alternate_address),
          .pkey_index = from.pkey_index,
          .alternate_pkey_index = from.alternate_pkey_index,
          .port = from.port.value(),
          .alternate_port = from.alternate_port.value(),
          .max_rd_atomic = from.max_rd_atomic,
          .max_dest_rd_atomic = from.max_dest_rd_atomic,
          .min_rnr_timer = from.min_rnr_timer,
          .timeout = from.timeout,
          .alternate_timeout = from.alternate_timeout,
          .retry_count = from.retry_count,
          .rnr_retry = from.rnr_retry};
}

uabi::RdmaCmEvent event_of(const cm::RdmaCmEvent& event) {
  const cm::ConnectionParameters& from = event.parameters;
  uabi::RdmaCmEvent out{
      .type = static_cast<uabi::RdmaCmEventType>(event.type),
      .uid = event.context,
      .id = event.id.value(),
      .status = event.failure == cm::RdmaCmFailure::None ? event.status : -errno_of(event.failure),
      .argument = event.argument,
      .parameters = {.qpn = from.qpn,
                     .qkey = from.qkey,
                     .has_srq = from.has_srq,
                     .responder_resources = from.responder_resources,
                     .initiator_depth = from.initiator_depth,
                     .flow_control = from.flow_control,
                     .retry_count = from.retry_count,
                     .rnr_retry_count = from.rnr_retry_count,
                     .private_data = {.octets = from.private_data}},
      .address_vector = vector_of(event.address),
      .ece = {.vendor_id = from.ece.vendor_id, .options = from.ece.options}
  };
  return out;
}

}  // namespace weft::daemon
