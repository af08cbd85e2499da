#include <rdma/ib_sa.h>

#include "core/sa/path_ah.h"
#include "kernel/device_face.h"
#include "kernel/gid_face.h"
#include "kernel/host.h"
#include "kernel/sa_records.h"
#include "kernel/values.h"

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
