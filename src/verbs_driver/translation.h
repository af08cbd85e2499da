#pragma once

// Values of src/verbs as libibverbs has them, and back. The numbers of enumerations are the same.

#include <infiniband/verbs.h>

#include "base/identifiers.h"
#include "core/device_attributes.h"
#include "core/work_request.h"
#include "verbs/qp_attributes.h"
#include "verbs_driver/library.h"

namespace weft::verbs_driver {

[[nodiscard]] Gid gid_of(const ibv_gid& gid);
[[nodiscard]] ibv_gid to_ibv(const Gid& gid);

[[nodiscard]] verbs::AddressVector address_of(const ibv_ah_attr& attributes);
[[nodiscard]] ibv_ah_attr to_ibv(const verbs::AddressVector& address);

[[nodiscard]] verbs::QpAttributes attributes_of(const ibv_qp_attr& attributes);
[[nodiscard]] ibv_qp_attr to_ibv(const verbs::QpAttributes& attributes);

[[nodiscard]] verbs::QpCapabilities capabilities_of(const ibv_qp_cap& capabilities);
[[nodiscard]] ibv_qp_cap to_ibv(const verbs::QpCapabilities& capabilities);

/// Without the QP, which the caller looks up by its number.
[[nodiscard]] core::Wc completion_of(const ibv_wc& wc);

/// What the driver can do of what the device can: fast registration, integrity, XRC and windows of
/// the kernel's API are not there.
[[nodiscard]] core::DeviceAttributes attributes_of(const ibv_device_attr& attributes,
                                                   bool has_on_demand_paging);
[[nodiscard]] core::PortDescription port_of(const ibv_port_attr& attributes,
                                            std::uint64_t subnet_prefix);

}  // namespace weft::verbs_driver
