#pragma once

struct rdma_cm_id;

namespace weft::kernel {

/// The QP of an id goes before the id does.
void forget_qp_of_id(rdma_cm_id& id);

}  // namespace weft::kernel
