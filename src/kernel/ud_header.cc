#include "wire/ud_header.h"

#include <rdma/ib_pack.h>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>

#include "kernel/host.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

/// Between the host's order and the network's; its own inverse.
template <std::unsigned_integral T>
[[nodiscard]] T swapped(T value) {
  return std::endian::native == std::endian::big ? value : std::byteswap(value);
}
[[nodiscard]] std::uint16_t swapped16(std::uint32_t value) {
  return swapped(static_cast<std::uint16_t>(value));
}

void copy(const std::byte* from, std::span<std::uint8_t> to) {
  std::ranges::transform(std::span{from, to.size()}, to.begin(),
                         [](std::byte octet) { return std::to_integer<std::uint8_t>(octet); });
}
void copy(std::span<const std::uint8_t> from, std::byte* to) {
  std::ranges::transform(from, to, [](std::uint8_t octet) { return std::byte{octet}; });
}

void fill_link(ib_ud_header& to, const wire::UdHeader& from) {
  if (to.lrh_present = from.lrh.has_value() ? 1 : 0; from.lrh) {
    to.lrh = {.virtual_lane = from.lrh->vl.value(),
              .link_version = from.lrh->link_version,
              .service_level = from.lrh->sl.value(),
              .link_next_header = static_cast<std::uint8_t>(from.lrh->lnh),
              .destination_lid = swapped16(from.lrh->dlid.value()),
              .packet_length = swapped(from.lrh->packet_length),
              .source_lid = swapped16(from.lrh->slid.value())};
  }
  if (to.eth_present = from.ethernet.has_value() ? 1 : 0; from.ethernet) {
    copy(from.ethernet->destination.data(), to.eth.dmac_h);
    copy(from.ethernet->destination.data() + 4, to.eth.dmac_l);
    copy(from.ethernet->source.data(), to.eth.smac_h);
    copy(from.ethernet->source.data() + 2, to.eth.smac_l);
    to.eth.type = swapped(from.ethernet->ether_type);
  }
  if (to.vlan_present = from.vlan.has_value() ? 1 : 0; from.vlan) {
    to.vlan.tag = swapped16(static_cast<std::uint32_t>(
        from.vlan->priority << 13 | (from.vlan->drop_eligible ? 1 << 12 : 0) | from.vlan->vlan_id));
    to.vlan.type = swapped(from.vlan->ether_type);
  }
}

void fill_network(ib_ud_header& to, const wire::UdHeader& from) {
  if (to.grh_present = from.grh.has_value() ? 1 : 0; from.grh) {
    to.grh = {.ip_version = from.grh->ip_version,
              .traffic_class = from.grh->traffic_class,
              .flow_label = swapped(from.grh->flow_label),
              .payload_length = swapped(from.grh->payload_length),
              .next_header = from.grh->next_header,
              .hop_limit = from.grh->hop_limit,
              .source_gid = kernel::to_c(from.grh->sgid),
              .destination_gid = kernel::to_c(from.grh->dgid)};
  }
  if (to.ipv4_present = from.ipv4.has_value() ? 1 : 0; from.ipv4) {
    const wire::Ipv4& ip = *from.ipv4;
    to.ip4 = {.ver = ip.version,
              .hdr_len = ip.header_dwords,
              .tos = ip.type_of_service,
              .tot_len = swapped(ip.total_length),
              .id = swapped(ip.identification),
              .frag_off = swapped16(static_cast<std::uint32_t>(
                  (ip.reserved_flag ? 1 << 15 : 0) | (ip.dont_fragment ? 1 << 14 : 0) |
                  (ip.more_fragments ? 1 << 13 : 0) | ip.fragment_offset)),
              .ttl = ip.time_to_live,
              .protocol = ip.protocol,
              .check = swapped(ip.checksum),
              .saddr = std::bit_cast<std::uint32_t>(ip.source),
              .daddr = std::bit_cast<std::uint32_t>(ip.destination)};
  }
  if (to.udp_present = from.udp.has_value() ? 1 : 0; from.udp) {
    to.udp = {.sport = swapped(from.udp->source_port),
              .dport = swapped(from.udp->destination_port),
              .length = swapped(from.udp->length),
              .csum = swapped(from.udp->checksum)};
  }
}

[[nodiscard]] ib_ud_header c_header_of(const wire::UdHeader& from) {
  ib_ud_header made{};
  fill_link(made, from);
  fill_network(made, from);
  made.bth = {.opcode = static_cast<std::uint8_t>(from.bth.opcode),
              .solicited_event = from.bth.solicited ? std::uint8_t{1} : std::uint8_t{0},
              .mig_req = from.bth.migrated ? std::uint8_t{1} : std::uint8_t{0},
              .pad_count = from.bth.pad_count,
              .transport_header_version = from.bth.transport_version,
              .pkey = swapped(from.bth.pkey.value()),
              .destination_qpn = swapped(from.bth.dest_qp.value()),
              .ack_req = from.bth.ack_request ? std::uint8_t{1} : std::uint8_t{0},
              .psn = swapped(from.bth.psn.value())};
  made.deth = {.qkey = swapped(from.deth.qkey.value()),
               .source_qpn = swapped(from.deth.src_qp.value())};
  if (from.immediate) {
    made.immediate_present = 1;
    made.immediate_data = swapped(from.immediate->immediate);
  }
  return made;
}

void take_link(wire::UdHeader& to, const ib_ud_header& from) {
  if (from.lrh_present != 0) {
    to.lrh = wire::Lrh{.vl = VirtualLane{from.lrh.virtual_lane},
                       .link_version = from.lrh.link_version,
                       .sl = ServiceLevel{from.lrh.service_level},
                       .lnh = static_cast<wire::LinkNextHeader>(from.lrh.link_next_header & 3),
                       .dlid = Lid{swapped(from.lrh.destination_lid)},
                       .packet_length = swapped(from.lrh.packet_length),
                       .slid = Lid{swapped(from.lrh.source_lid)}};
  }
  if (from.eth_present != 0) {
    wire::Ethernet& ethernet = to.ethernet.emplace();
    copy(from.eth.dmac_h, ethernet.destination.data());
    copy(from.eth.dmac_l, ethernet.destination.data() + 4);
    copy(from.eth.smac_h, ethernet.source.data());
    copy(from.eth.smac_l, ethernet.source.data() + 2);
    ethernet.ether_type = swapped(from.eth.type);
  }
  if (from.vlan_present != 0) {
    const std::uint16_t tag = swapped(from.vlan.tag);
    to.vlan = wire::Vlan{.priority = static_cast<std::uint8_t>(tag >> 13),
                         .drop_eligible = (tag & 1 << 12) != 0,
                         .vlan_id = static_cast<std::uint16_t>(tag & 0xFFF),
                         .ether_type = swapped(from.vlan.type)};
  }
}

void take_network(wire::UdHeader& to, const ib_ud_header& from) {
  if (from.grh_present != 0) {
    to.grh = wire::Grh{.ip_version = from.grh.ip_version,
                       .traffic_class = from.grh.traffic_class,
                       .flow_label = swapped(from.grh.flow_label),
                       .payload_length = swapped(from.grh.payload_length),
                       .next_header = from.grh.next_header,
                       .hop_limit = from.grh.hop_limit,
                       .sgid = gid_of(from.grh.source_gid),
                       .dgid = gid_of(from.grh.destination_gid)};
  }
  if (from.ipv4_present != 0) {
    const std::uint16_t fragment = swapped(from.ip4.frag_off);
    to.ipv4 = wire::Ipv4{.version = from.ip4.ver,
                         .header_dwords = from.ip4.hdr_len,
                         .type_of_service = from.ip4.tos,
                         .total_length = swapped(from.ip4.tot_len),
                         .identification = swapped(from.ip4.id),
                         .reserved_flag = (fragment & 1 << 15) != 0,
                         .dont_fragment = (fragment & 1 << 14) != 0,
                         .more_fragments = (fragment & 1 << 13) != 0,
                         .fragment_offset = static_cast<std::uint16_t>(fragment & 0x1FFF),
                         .time_to_live = from.ip4.ttl,
                         .protocol = from.ip4.protocol,
                         .checksum = swapped(from.ip4.check),
                         .source = std::bit_cast<std::array<std::byte, 4>>(from.ip4.saddr),
                         .destination = std::bit_cast<std::array<std::byte, 4>>(from.ip4.daddr)};
  }
  if (from.udp_present != 0) {
    to.udp = wire::Udp{.source_port = swapped(from.udp.sport),
                       .destination_port = swapped(from.udp.dport),
                       .length = swapped(from.udp.length),
                       .checksum = swapped(from.udp.csum)};
  }
}

[[nodiscard]] wire::UdHeader header_of(const ib_ud_header& from) {
  wire::UdHeader made;
  take_link(made, from);
  take_network(made, from);
  made.bth.opcode = static_cast<wire::Opcode>(from.bth.opcode);
  made.bth.solicited = from.bth.solicited_event != 0;
  made.bth.migrated = from.bth.mig_req != 0;
  made.bth.pad_count = from.bth.pad_count;
  made.bth.transport_version = from.bth.transport_header_version;
  made.bth.pkey = PKey{swapped(from.bth.pkey)};
  made.bth.dest_qp = Qpn{swapped(from.bth.destination_qpn)};
  made.bth.ack_request = from.bth.ack_req != 0;
  made.bth.psn = Psn{swapped(from.bth.psn)};
  made.deth.qkey = QKey{swapped(from.deth.qkey)};
  made.deth.src_qp = Qpn{swapped(from.deth.source_qpn)};
  if (from.immediate_present != 0) {
    made.immediate = wire::ImmDt{.immediate = swapped(from.immediate_data)};
  }
  return made;
}

}  // namespace
}  // namespace weft::kernel

int ib_ud_header_init(int payload_bytes, int lrh_present, int eth_present, int vlan_present,
                      int grh_present, int ip_version, int udp_present, int immediate_present,
                      ib_ud_header* header) {
  if (payload_bytes < 0 || ip_version < 0) {
    return weft::kernel::refuse(
        {weft::ErrorCode::InvalidArgument, "lengths and versions are not negative"});
  }
  const auto made = weft::wire::make_ud_header(static_cast<std::size_t>(payload_bytes),
                                               {.lrh = lrh_present != 0,
                                                .ethernet = eth_present != 0,
                                                .vlan = vlan_present != 0,
                                                .grh = grh_present != 0,
                                                .ip_version = static_cast<unsigned>(ip_version),
                                                .udp = udp_present != 0,
                                                .immediate = immediate_present != 0});
  if (!made) {
    return weft::kernel::refuse(made.error());
  }
  *header = weft::kernel::c_header_of(*made);
  return 0;
}

int ib_ud_header_pack(ib_ud_header* header, void* buf) {
  const weft::wire::UdHeader made = weft::kernel::header_of(*header);
  return static_cast<int>(
      weft::wire::pack(made, {static_cast<std::byte*>(buf), weft::wire::packed_bytes(made)}));
}

int ib_ud_header_unpack(void* buf, ib_ud_header* header) {
  // The caller's buffer holds the longest headers of this kind.
  constexpr std::size_t kLongest = IB_LRH_BYTES + IB_GRH_BYTES + IB_BTH_BYTES + IB_DETH_BYTES + 4;
  const auto found = weft::wire::unpack_ud_header({static_cast<const std::byte*>(buf), kLongest});
  if (!found) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument, found.error().reason});
  }
  *header = weft::kernel::c_header_of(*found);
  return 0;
}
