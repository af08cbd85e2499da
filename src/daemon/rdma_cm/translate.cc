#include "daemon/rdma_cm/translate.h"

#include <algorithm>
#include <cerrno>

namespace weft::daemon {
namespace {

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

uabi::RdmaCmIdState state_of(const cm::RdmaCmIdInfo& info) {
  return {.device = info.device,
          .port = info.port,
          .pkey = info.pkey,
          .source = address_of(info.source),
          .destination = address_of(info.destination),
          .sgid = info.sgid,
          .dgid = info.dgid,
          .paths = info.paths};
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
    case verbs::RdmaCmEventType::AddrinfoResolved:
    case verbs::RdmaCmEventType::AddrinfoError:
    case verbs::RdmaCmEventType::User:
      return cm::RdmaCmEvent{.type = written.type,
                             .context = written.uid,
                             .id = cm::RdmaCmId{written.id},
                             .status = written.status,
                             .argument = written.argument};
    default:
      return std::nullopt;
  }
}

uabi::RdmaCmEvent event_of(const cm::RdmaCmEvent& event) {
  return {
      .type = event.type,
      .uid = event.context,
      .id = event.id.value(),
      .status = event.failure == cm::RdmaCmFailure::None ? event.status : -errno_of(event.failure),
      .argument = event.argument,
      .parameters = event.parameters,
      .address_vector = event.address};
}

}  // namespace weft::daemon
