#pragma once

// iSER for an initiator's session.

#include "programs/iscsi/link.h"

namespace weft::programs::iser {

/// Over the libraries and the RDMA device that a link's first connect() finds. A link's destruction
/// waits for connections that are ending. Data lies in slabs of shared memory
/// (programs/rdma/slab_pool.h), each of which is registered as a whole.
[[nodiscard]] iscsi::LinkKind iser_links(weft::iscsi::HelloPolicy hello);

}  // namespace weft::programs::iser
