#include "programs/srp/buffer_pool.h"

#include <bit>
#include <memory>

#include "base/assert.h"
#include "core/mr.h"

namespace weft::programs::srp {
namespace {

/// For targets to read and to write.
[[nodiscard]] Result<std::shared_ptr<const void>> register_slab(core::Pd& pd,
                                                                MutableByteSpan memory) {
  const auto begin = std::bit_cast<std::uint64_t>(memory.data());
  const auto mr =
      core::register_user_mr(pd, {.start = begin, .length = memory.size(), .iova = begin},
                             verbs::AccessFlags{verbs::Access::LocalWrite} |
                                 verbs::Access::RemoteRead | verbs::Access::RemoteWrite,
                             nullptr);
  if (!mr) {
    return std::unexpected(mr.error());
  }
  return std::shared_ptr<const void>{*mr, [](core::Mr* registered) {
                                       const auto gone = core::deregister_mr(*registered);
                                       WEFT_ASSERT(gone, "no window is bound to it");
                                     }};
}

}  // namespace

BufferPool::BufferPool(core::Pd& pd)
    : slabs_([&pd](MutableByteSpan memory) { return register_slab(pd, memory); }) {}

Result<RKey> BufferPool::key_of(std::uint64_t address, std::size_t bytes) const {
  const auto slab = slabs_.extent_of(address, bytes);
  if (!slab) {
    return fail(ErrorCode::BadAddress, "{} octets at {:#x} are of no registered buffer", bytes,
                address);
  }
  return static_cast<const core::Mr*>(slab->attached)->rkey;
}

}  // namespace weft::programs::srp
