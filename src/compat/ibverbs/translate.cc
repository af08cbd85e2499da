// Conversion of values between the C interface and ours.

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "compat/ibverbs/objects.h"

namespace weft::compat {

void copy_clamped(void* to, std::size_t to_size, const void* from, std::size_t from_size) {
  std::memset(to, 0, to_size);
  std::memcpy(to, from, std::min(to_size, from_size));
}

Gid to_engine(const ibv_gid& gid) {
  std::array<std::byte, Gid::kSize> octets;
  std::memcpy(octets.data(), gid.raw, octets.size());
  return Gid{octets};
}

ibv_gid from_engine(const Gid& gid) {
  ibv_gid out{};
  std::memcpy(out.raw, gid.octets().data(), Gid::kSize);
  return out;
}

hca::AddressVector to_engine(const ibv_ah_attr& attributes) {
  hca::AddressVector out;
  out.dlid = Lid{attributes.dlid};
  out.sl = ServiceLevel{attributes.sl};
  out.source_path_bits = attributes.src_path_bits;
  out.static_rate = attributes.static_rate;
  out.port = PortNumber{attributes.port_num};
  out.is_global = attributes.is_global != 0;
  if (out.is_global) {
    out.grh.dgid = to_engine(attributes.grh.dgid);
    out.grh.flow_label = attributes.grh.flow_label & 0xF'FFFF;
    out.grh.sgid_index = attributes.grh.sgid_index;
    out.grh.hop_limit = attributes.grh.hop_limit;
    out.grh.traffic_class = attributes.grh.traffic_class;
  }
  return out;
}

ibv_ah_attr from_engine(const hca::AddressVector& attributes) {
  ibv_ah_attr out{};
  out.dlid = static_cast<std::uint16_t>(attributes.dlid.value());
  out.sl = attributes.sl.value();
  out.src_path_bits = attributes.source_path_bits;
  out.static_rate = attributes.static_rate;
  out.port_num = attributes.port.value();
  out.is_global = attributes.is_global ? 1 : 0;
  out.grh.dgid = from_engine(attributes.grh.dgid);
  out.grh.flow_label = attributes.grh.flow_label;
  out.grh.sgid_index = attributes.grh.sgid_index;
  out.grh.hop_limit = attributes.grh.hop_limit;
  out.grh.traffic_class = attributes.grh.traffic_class;
  return out;
}

void from_engine(const hca::Wc& wc, ibv_wc& out) {
  out.wr_id = wc.wr_id;
  out.status = static_cast<ibv_wc_status>(wc.status);  // the numbers are equal (hca/types.h)
  out.opcode = static_cast<ibv_wc_opcode>(wc.opcode);
  out.vendor_err = wc.vendor_error;
  out.byte_len = wc.byte_length;
  if (wc.flags.has(hca::Completion::WithInvalidate)) {
    out.invalidated_rkey = wc.invalidated_rkey.value();
  } else {
    out.imm_data = htonl(wc.immediate);
  }
  out.qp_num = wc.qpn.value();
  out.src_qp = wc.src_qpn.value();
  out.wc_flags = wc.flags.bits();
  out.pkey_index = wc.pkey_index;
  out.slid = static_cast<std::uint16_t>(wc.slid.value());
  out.sl = wc.sl.value();
  out.dlid_path_bits = wc.dlid_path_bits;
}

}  // namespace weft::compat
