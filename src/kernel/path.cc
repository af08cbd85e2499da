#include <rdma/ib_sa.h>

#include <bit>

#include "core/sa/path_ah.h"
#include "kernel/device_face.h"
#include "kernel/gid_face.h"
#include "kernel/host.h"
#include "kernel/values.h"
#include "wire/mad/path_record.h"

namespace weft::kernel {
namespace {

template <class T>
[[nodiscard]] T host_order(T value) {
  return std::endian::native == std::endian::big ? value : std::byteswap(value);
}

/// What an address handle needs of a path.
[[nodiscard]] wire::PathRecord path_of(const sa_path_rec& from) {
  wire::PathRecord made;
  made.dgid = gid_of(from.dgid);
  made.sgid = gid_of(from.sgid);
  if (from.rec_type == SA_PATH_REC_TYPE_IB) {
    made.dlid = Lid{host_order(from.ib.dlid)};
    made.slid = Lid{host_order(from.ib.slid)};
    made.raw_traffic = from.ib.raw_traffic != 0;
  }
  made.flow_label = host_order(from.flow_label);
  made.hop_limit = from.hop_limit;
  made.tclass = from.traffic_class;
  made.pkey = PKey{host_order(from.pkey)};
  made.sl = ServiceLevel{from.sl};
  made.mtu = from.mtu;
  made.rate = from.rate;
  made.packet_life_time = from.packet_life_time;
  return made;
}

}  // namespace
}  // namespace weft::kernel

int ib_init_ah_attr_from_path(ib_device* device, std::uint8_t port_num, sa_path_rec* rec,
                              rdma_ah_attr* ah_attr, const ib_gid_attr* sgid_attr) {
  *ah_attr = {};
  const auto made = weft::core::init_ah_attributes_from_path(
      weft::kernel::core_of(*device), weft::PortNumber{port_num}, weft::kernel::path_of(*rec),
      sgid_attr != nullptr ? weft::kernel::reference_of(*sgid_attr) : weft::core::GidReference{});
  if (!made) {
    return weft::kernel::refuse(made.error());
  }
  *ah_attr = weft::kernel::to_c(*made);
  if (made->sgid) {
    ah_attr->grh.sgid_attr = weft::kernel::make_gid_face(made->sgid);
  }
  return 0;
}
