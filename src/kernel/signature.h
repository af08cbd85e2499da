#pragma once

#include <rdma/signature.h>

#include "core/signature.h"

namespace weft::kernel {

[[nodiscard]] core::SignatureAttributes signature_of(const ib_sig_attrs& attributes);
[[nodiscard]] ib_mr_status to_c(const core::SignatureStatus& status);

}  // namespace weft::kernel
