#pragma once

#include <rdma/ib_verbs.h>

#include "core/port_cache.h"

namespace weft::kernel {

/// An entry of a GID table, held once by the caller, who gives it up by rdma_put_gid_attr().
[[nodiscard]] const ib_gid_attr* make_gid_face(core::GidReference held);

/// Another reference to the entry behind a face.
[[nodiscard]] core::GidReference reference_of(const ib_gid_attr& face);

}  // namespace weft::kernel
