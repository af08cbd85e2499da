#include "kernel/sa_records.h"

#include <algorithm>
#include <bit>
#include <span>

#include "kernel/values.h"

namespace weft::kernel {
namespace {

/// From network order, and into it.
template <class T>
[[nodiscard]] T swapped(T value) {
  return std::endian::native == std::endian::big ? value : std::byteswap(value);
}

template <class To, class From>
void copy_swapped(To& to, const From& from) {
  std::ranges::transform(from, std::begin(to), [](auto value) { return swapped(value); });
}

}  // namespace

wire::PathRecord path_of(const sa_path_rec& from) {
  wire::PathRecord made;
  made.set_service_id(swapped(from.service_id));
  made.dgid = gid_of(from.dgid);
  made.sgid = gid_of(from.sgid);
  if (from.rec_type == SA_PATH_REC_TYPE_IB) {
    made.dlid = Lid{swapped(from.ib.dlid)};
    made.slid = Lid{swapped(from.ib.slid)};
    made.raw_traffic = from.ib.raw_traffic != 0;
  }
  made.flow_label = swapped(from.flow_label) & 0xF'FFFF;
  made.hop_limit = from.hop_limit;
  made.tclass = from.traffic_class;
  made.reversible = from.reversible != 0;
  made.path_count = from.numb_path & 0x7F;
  made.pkey = PKey{swapped(from.pkey)};
  made.qos_class = swapped(from.qos_class) & 0xFFF;
  made.sl = ServiceLevel{static_cast<std::uint8_t>(from.sl & 0xF)};
  made.mtu_selector = static_cast<wire::Selector>(from.mtu_selector & 3);
  made.mtu = from.mtu & 0x3F;
  made.rate_selector = static_cast<wire::Selector>(from.rate_selector & 3);
  made.rate = from.rate & 0x3F;
  made.packet_life_time_selector = static_cast<wire::Selector>(from.packet_life_time_selector & 3);
  made.packet_life_time = from.packet_life_time & 0x3F;
  made.preference = from.preference;
  return made;
}

sa_path_rec to_c(const wire::PathRecord& from) {
  sa_path_rec made{};
  made.rec_type = SA_PATH_REC_TYPE_IB;
  made.service_id = swapped(from.service_id());
  made.dgid = to_c(from.dgid);
  made.sgid = to_c(from.sgid);
  made.ib.dlid = swapped(static_cast<std::uint16_t>(from.dlid.value()));
  made.ib.slid = swapped(static_cast<std::uint16_t>(from.slid.value()));
  made.ib.raw_traffic = from.raw_traffic ? 1 : 0;
  made.flow_label = swapped(from.flow_label);
  made.hop_limit = from.hop_limit;
  made.traffic_class = from.tclass;
  made.reversible = from.reversible ? 1 : 0;
  made.numb_path = from.path_count;
  made.pkey = swapped(from.pkey.value());
  made.qos_class = swapped(from.qos_class);
  made.sl = from.sl.value();
  made.mtu_selector = static_cast<std::uint8_t>(from.mtu_selector);
  made.mtu = from.mtu;
  made.rate_selector = static_cast<std::uint8_t>(from.rate_selector);
  made.rate = from.rate;
  made.packet_life_time_selector = static_cast<std::uint8_t>(from.packet_life_time_selector);
  made.packet_life_time = from.packet_life_time;
  made.preference = from.preference;
  return made;
}

wire::ServiceRecord service_of(const ib_sa_service_rec& from) {
  wire::ServiceRecord made;
  made.service_id = swapped(from.id);
  made.service_gid = gid_of(from.gid);
  made.service_pkey = PKey{swapped(from.pkey)};
  made.service_lease = swapped(from.lease);
  std::ranges::copy(std::as_bytes(std::span{from.key}), made.service_key.begin());
  std::ranges::copy(std::as_bytes(std::span{from.name}), made.service_name.begin());
  std::ranges::copy(from.data8, made.service_data8.begin());
  copy_swapped(made.service_data16, from.data16);
  copy_swapped(made.service_data32, from.data32);
  copy_swapped(made.service_data64, from.data64);
  return made;
}

ib_sa_service_rec to_c(const wire::ServiceRecord& from) {
  ib_sa_service_rec made{};
  made.id = swapped(from.service_id);
  made.gid = to_c(from.service_gid);
  made.pkey = swapped(from.service_pkey.value());
  made.lease = swapped(from.service_lease);
  std::ranges::copy(from.service_key, std::as_writable_bytes(std::span{made.key}).begin());
  std::ranges::copy(from.service_name, std::as_writable_bytes(std::span{made.name}).begin());
  std::ranges::copy(from.service_data8, made.data8);
  copy_swapped(made.data16, from.service_data16);
  copy_swapped(made.data32, from.service_data32);
  copy_swapped(made.data64, from.service_data64);
  return made;
}

}  // namespace weft::kernel
