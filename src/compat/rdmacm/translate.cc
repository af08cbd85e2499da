#include "compat/rdmacm/translate.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::compat {
namespace {

constexpr std::size_t kIp4Octets = 4;

/// Copies the address into the C structure of its family; programs' memory may be unaligned.
template <class Structure>
[[nodiscard]] Structure read_as(const sockaddr* address) {
  Structure out{};
  std::memcpy(&out, address, sizeof out);
  return out;
}

[[nodiscard]] uabi::RdmaCmAddress ip4(const sockaddr_in& address) {
  uabi::RdmaCmAddress out{.family = uabi::RdmaCmFamily::Ip4, .port = ntohs(address.sin_port)};
  std::memcpy(out.octets.data(), &address.sin_addr, kIp4Octets);
  return out;
}

[[nodiscard]] uabi::RdmaCmAddress ip6(const sockaddr_in6& address) {
  uabi::RdmaCmAddress out{.family = uabi::RdmaCmFamily::Ip6,
                          .port = ntohs(address.sin6_port),
                          .flow_info = ntohl(address.sin6_flowinfo),
                          .scope = address.sin6_scope_id};
  std::memcpy(out.octets.data(), &address.sin6_addr, out.octets.size());
  return out;
}

[[nodiscard]] uabi::RdmaCmAddress ib(const sockaddr_ib& address) {
  uabi::RdmaCmAddress out{.family = uabi::RdmaCmFamily::Ib,
                          .flow_info = ntohl(address.sib_flowinfo),
                          .scope = address.sib_scope_id,
                          .pkey = PKey{ntohs(address.sib_pkey)},
                          .service_id = be64toh(address.sib_sid),
                          .service_mask = be64toh(address.sib_sid_mask)};
  std::memcpy(out.octets.data(), &address.sib_addr, out.octets.size());
  return out;
}

[[nodiscard]] sockaddr_in ip4(const uabi::RdmaCmAddress& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(address.port);
  std::memcpy(&out.sin_addr, address.octets.data(), kIp4Octets);
  return out;
}

[[nodiscard]] sockaddr_in6 ip6(const uabi::RdmaCmAddress& address) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(address.port);
  out.sin6_flowinfo = htonl(address.flow_info);
  out.sin6_scope_id = static_cast<std::uint32_t>(address.scope);
  std::memcpy(&out.sin6_addr, address.octets.data(), address.octets.size());
  return out;
}

[[nodiscard]] sockaddr_ib ib(const uabi::RdmaCmAddress& address) {
  sockaddr_ib out{};
  out.sib_family = AF_IB;
  out.sib_pkey = htons(address.pkey.value());
  out.sib_flowinfo = htonl(address.flow_info);
  std::memcpy(&out.sib_addr, address.octets.data(), address.octets.size());
  out.sib_sid = htobe64(address.service_id);
  out.sib_sid_mask = htobe64(address.service_mask);
  out.sib_scope_id = address.scope;
  return out;
}

template <class Structure>
void write_as(const Structure& address, sockaddr_storage& out) {
  out = {};
  std::memcpy(&out, &address, sizeof address);
}

[[nodiscard]] Gid gid_of(const ibv_gid& gid) {
  std::array<std::byte, Gid::kSize> octets{};
  std::memcpy(octets.data(), gid.raw, octets.size());
  return Gid{octets};
}

/// The selector is above the code in an octet of a PathRecord.
constexpr std::uint8_t kCodeBits = 0x3F;
constexpr std::uint8_t kExactly = 2;

}  // namespace

socklen_t length_of(const sockaddr* address) {
  if (address == nullptr) {
    return 0;
  }
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

std::optional<uabi::RdmaCmAddress> to_daemon(const sockaddr* address) {
  if (address == nullptr) {
    return uabi::RdmaCmAddress{};
  }
  switch (address->sa_family) {
    case AF_INET:
      return ip4(read_as<sockaddr_in>(address));
    case AF_INET6:
      return ip6(read_as<sockaddr_in6>(address));
    case AF_IB:
      return ib(read_as<sockaddr_ib>(address));
    default:
      return std::nullopt;
  }
}

void from_daemon(const uabi::RdmaCmAddress& address, sockaddr_storage& out) {
  switch (address.family) {
    case uabi::RdmaCmFamily::None:
      return;
    case uabi::RdmaCmFamily::Ip4:
      return write_as(ip4(address), out);
    case uabi::RdmaCmFamily::Ip6:
      return write_as(ip6(address), out);
    case uabi::RdmaCmFamily::Ib:
      return write_as(ib(address), out);
  }
}

__be16 port_of(const sockaddr* address) {
  if (address == nullptr) {
    return 0;
  }
  switch (address->sa_family) {
    case AF_INET:
      return read_as<sockaddr_in>(address).sin_port;
    case AF_INET6:
      return read_as<sockaddr_in6>(address).sin6_port;
    case AF_IB:
      return htons(static_cast<std::uint16_t>(be64toh(read_as<sockaddr_ib>(address).sib_sid)));
    default:
      return 0;
  }
}

ibv_gid from_daemon(const Gid& gid) {
  ibv_gid out{};
  std::memcpy(out.raw, gid.octets().data(), Gid::kSize);
  return out;
}

ibv_ah_attr from_daemon(const verbs::AddressVector& vector) {
  ibv_ah_attr out{};
  out.dlid = static_cast<std::uint16_t>(vector.dlid.value());
  out.sl = vector.sl.value();
  out.src_path_bits = vector.source_path_bits;
  out.static_rate = vector.static_rate;
  out.port_num = vector.port.value();
  out.is_global = vector.is_global ? 1 : 0;
  out.grh.dgid = from_daemon(vector.grh.dgid);
  out.grh.flow_label = vector.grh.flow_label;
  out.grh.sgid_index = vector.grh.sgid_index;
  out.grh.hop_limit = vector.grh.hop_limit;
  out.grh.traffic_class = vector.grh.traffic_class;
  return out;
}

ibv_sa_path_rec from_daemon(const verbs::Path& path, bool is_primary) {
  ibv_sa_path_rec out{};
  out.dgid = from_daemon(path.dgid);
  out.sgid = from_daemon(path.sgid);
  out.dlid = htons(static_cast<std::uint16_t>(path.dlid.value()));
  out.slid = htons(static_cast<std::uint16_t>(path.slid.value()));
  out.flow_label = htonl(path.flow_label);
  out.hop_limit = path.hop_limit;
  out.traffic_class = path.traffic_class;
  out.reversible = path.is_reversible ? 1 : 0;
  out.numb_path = 1;
  out.pkey = htons(path.pkey.value());
  out.sl = path.sl.value();
  out.mtu_selector = kExactly;
  out.mtu = static_cast<std::uint8_t>(path.mtu);
  out.rate_selector = kExactly;
  out.rate = path.rate;
  out.packet_life_time_selector = kExactly;
  out.packet_life_time = path.packet_life_time;
  out.preference = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE |
                   (is_primary ? IBV_PATH_FLAG_PRIMARY : IBV_PATH_FLAG_ALTERNATE);
  return out;
}

std::optional<verbs::Path> to_daemon(const ibv_path_data& data) {
  const ibv_path_record& path = data.path;
  const std::uint32_t flow_and_hops = ntohl(path.flowlabel_hoplimit);
  const auto mtu = verbs::mtu_of(path.mtu & kCodeBits);
  if (!mtu) {
    return std::nullopt;
  }
  return verbs::Path{.sgid = gid_of(path.sgid),
                     .dgid = gid_of(path.dgid),
                     .slid = Lid{ntohs(path.slid)},
                     .dlid = Lid{ntohs(path.dlid)},
                     .sl = ServiceLevel{static_cast<std::uint8_t>(ntohs(path.qosclass_sl) & 0xF)},
                     .pkey = PKey{ntohs(path.pkey)},
                     .mtu = *mtu,
                     .rate = static_cast<std::uint8_t>(path.rate & kCodeBits),
                     .packet_life_time = static_cast<std::uint8_t>(path.packetlifetime & kCodeBits),
                     .traffic_class = path.tclass,
                     .hop_limit = static_cast<std::uint8_t>(flow_and_hops),
                     .flow_label = flow_and_hops >> 8 & 0xF'FFFF,
                     .is_reversible = (path.reversible_numpath & IBV_PATH_RECORD_REVERSIBLE) != 0};
}

ibv_qp_attr from_daemon(const verbs::QpAttributes& attributes) {
  ibv_qp_attr out{};
  out.qp_state = static_cast<ibv_qp_state>(attributes.state);
  out.cur_qp_state = out.qp_state;
  out.path_mtu = static_cast<ibv_mtu>(attributes.path_mtu);
  out.path_mig_state = static_cast<ibv_mig_state>(attributes.migration);
  out.qkey = attributes.qkey.value();
  out.rq_psn = attributes.rq_psn.value();
  out.sq_psn = attributes.sq_psn.value();
  out.dest_qp_num = attributes.dest_qpn.value();
  out.qp_access_flags = attributes.access.bits();
  out.ah_attr = from_daemon(attributes.address);
  out.alt_ah_attr = from_daemon(attributes.alternate_address);
  out.pkey_index = attributes.pkey_index;
  out.alt_pkey_index = attributes.alternate_pkey_index;
  out.port_num = attributes.port.value();
  out.alt_port_num = attributes.alternate_port.value();
  out.max_rd_atomic = attributes.max_rd_atomic;
  out.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  out.min_rnr_timer = attributes.min_rnr_timer;
  out.timeout = attributes.timeout.value();
  out.alt_timeout = attributes.alternate_timeout.value();
  out.retry_cnt = attributes.retry_count;
  out.rnr_retry = attributes.rnr_retry;
  return out;
}

std::vector<std::byte> private_data(const void* data, std::size_t bytes) {
  std::vector<std::byte> out;
  if (data != nullptr) {
    const auto* const octets = static_cast<const std::byte*>(data);
    out.assign(octets, octets + std::min(bytes, uabi::kMaxRdmaCmPrivateData));
  }
  return out;
}

}  // namespace weft::compat
