#pragma once

// Slabs of an initiator's buffers (programs/rdma/slab_pool.h), each registered once under a key of
// its own. Any thread.

#include <cstddef>
#include <cstdint>

#include "base/keys.h"
#include "base/result.h"
#include "core/pd.h"
#include "programs/rdma/slab_pool.h"

namespace weft::programs::srp {

class BufferPool {
 public:
  using Lease = rdma::SlabPool::Lease;

  /// The PD outlives it.
  explicit BufferPool(core::Pd& pd);

  /// At least so many octets; what is in them is what was left there.
  [[nodiscard]] Result<Lease> take(std::size_t bytes) { return slabs_.take(bytes); }
  /// The key of the slab that has these octets; none: they are of no buffer.
  [[nodiscard]] Result<RKey> key_of(std::uint64_t address, std::size_t bytes) const;

 private:
  rdma::SlabPool slabs_;
};

}  // namespace weft::programs::srp
