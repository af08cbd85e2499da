#pragma once

// Values of src/verbs and src/core as include/rdma has them, and back. The numbers of enumerations
// are the same.

#include <rdma/ib_verbs.h>

#include <optional>

#include "base/identifiers.h"
#include "core/ah.h"
#include "core/device_attributes.h"
#include "core/work_request.h"
#include "verbs/qp_attributes.h"

namespace weft::kernel {

[[nodiscard]] Gid gid_of(const ib_gid& gid);
[[nodiscard]] ib_gid to_c(const Gid& gid);

[[nodiscard]] core::AhAttributes ah_attributes_of(const rdma_ah_attr& attributes);
/// Holds no source GID.
[[nodiscard]] rdma_ah_attr to_c(const core::AhAttributes& attributes);

[[nodiscard]] verbs::QpCapabilities capabilities_of(const ib_qp_cap& capabilities);
void set_capabilities(ib_qp_cap& into, const verbs::QpCapabilities& capabilities);

[[nodiscard]] verbs::QpAttributes attributes_of(const ib_qp_attr& attributes);
[[nodiscard]] ib_qp_attr to_c(const verbs::QpAttributes& attributes);

[[nodiscard]] ib_device_attr to_c(const core::DeviceAttributes& attributes);
[[nodiscard]] ib_port_attr to_c(const core::PortDescription& port);

/// `qp` is the face of the completion's QP.
[[nodiscard]] ib_wc to_c(const core::Wc& wc, ib_qp* qp);

}  // namespace weft::kernel
