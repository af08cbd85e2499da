#include "programs/srp/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "core/mr.h"

namespace weft::programs::srp {
namespace {

constexpr std::size_t kSmallest = 4096;  // policy: INQUIRY and its like share buffers

}  // namespace

std::uint64_t BufferPool::Buffer::address() const {
  return std::bit_cast<std::uint64_t>(memory_.data());
}

BufferPool::~BufferPool() {
  WEFT_ASSERT(taken_.empty(), "who took a buffer has given it back");
  for (const auto& buffer : kept_) {
    free(*buffer);
  }
}

void BufferPool::free(Buffer& buffer) {
  const auto gone = core::deregister_mr(*buffer.mr_);
  WEFT_ASSERT(gone, "no window is bound to it");
}

Result<BufferPool::Lease> BufferPool::take(std::size_t bytes) {
  const std::size_t size = std::max(kSmallest, std::bit_ceil(bytes));
  {
    const std::lock_guard lock{mutex_};
    const auto found = std::ranges::find_if(
        kept_, [size](const auto& buffer) { return buffer->memory_.size() == size; });
    if (found != kept_.end()) {
      taken_.push_back(found->release());
      kept_.erase(found);
      return Lease{taken_.back(), {this}};
    }
  }
  auto made = std::make_unique<Buffer>(size);
  const core::UserMemoryRange whole{
      .start = made->address(), .length = size, .iova = made->address()};
  const auto mr = core::register_user_mr(pd_, whole,
                                         verbs::AccessFlags{verbs::Access::LocalWrite} |
                                             verbs::Access::RemoteRead | verbs::Access::RemoteWrite,
                                         nullptr);
  if (!mr) {
    return std::unexpected(mr.error());
  }
  made->mr_ = *mr;
  const std::lock_guard lock{mutex_};
  taken_.push_back(made.release());
  return Lease{taken_.back(), {this}};
}

void BufferPool::give_back(Buffer* buffer) {
  std::unique_ptr<Buffer> ours{buffer};
  {
    const std::lock_guard lock{mutex_};
    std::erase(taken_, buffer);
    if (kept_.size() < kKept) {
      kept_.push_back(std::move(ours));
      return;
    }
  }
  free(*ours);
}

Result<RKey> BufferPool::key_of(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock{mutex_};
  for (const Buffer* const buffer : taken_) {
    const std::uint64_t begin = buffer->address();
    if (address >= begin && address - begin <= buffer->memory_.size() &&
        bytes <= buffer->memory_.size() - (address - begin)) {
      return buffer->mr_->rkey;
    }
  }
  return fail(ErrorCode::BadAddress, "{} octets at {:#x} are of no registered buffer", bytes,
              address);
}

std::size_t BufferPool::size() const {
  const std::lock_guard lock{mutex_};
  return kept_.size() + taken_.size();
}

}  // namespace weft::programs::srp
