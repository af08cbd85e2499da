#pragma once

// iSER for an initiator's session.

#include <asio/io_context.hpp>
#include <memory>

#include "programs/iscsi/link.h"

namespace weft::programs::iser {

/// Over the libraries and the RDMA device that the first connect() finds. Its destruction waits for
/// connections that are ending.
[[nodiscard]] std::unique_ptr<iscsi::Link> make_iser_link(asio::io_context& loop,
                                                          weft::iscsi::HelloPolicy hello);

}  // namespace weft::programs::iser
