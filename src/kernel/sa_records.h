#pragma once

// Records of subnet administration as include/rdma has them, whose numbers are in network order,
// and back.

#include <rdma/ib_sa.h>

#include "wire/mad/path_record.h"
#include "wire/mad/service_record.h"

namespace weft::kernel {

[[nodiscard]] wire::PathRecord path_of(const sa_path_rec& from);
[[nodiscard]] sa_path_rec to_c(const wire::PathRecord& from);

[[nodiscard]] wire::ServiceRecord service_of(const ib_sa_service_rec& from);
[[nodiscard]] ib_sa_service_rec to_c(const wire::ServiceRecord& from);

}  // namespace weft::kernel
