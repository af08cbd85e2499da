#include "ulp/iser/transfer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "core/device.h"
#include "core/mr.h"
#include "core/rdma_rw_sizing.h"

namespace weft::iser {
namespace {

constexpr std::uint64_t kPageBytes = 4'096;  // what regions of contexts are mapped by

/// One element; of regions each page is one, since those are counted by elements.
void list_pieces(std::vector<core::ScatterEntry>& list, ByteSpan memory, bool in_pages) {
  auto address = std::bit_cast<std::uint64_t>(memory.data());
  for (std::size_t left = memory.size(); left != 0;) {
    const std::size_t part =
        in_pages ? std::min<std::size_t>(left, kPageBytes - address % kPageBytes) : left;
    list.push_back({.address = address, .length = static_cast<std::uint32_t>(part)});
    address += part;
    left -= part;
  }
}

}  // namespace

void Transfer::begin(core::DmaDirection direction, ByteSpan memory, std::uint64_t remote_address,
                     RKey rkey) {
  WEFT_ASSERT(!has_begun_, "the one before has ended");
  has_begun_ = true;
  memory_ = memory;
  what_ = {.remote_address = remote_address, .rkey = rkey, .direction = direction};
}

void Transfer::begin(core::DmaDirection direction, ByteSpan blocks, ByteSpan tuples,
                     const TaskProtection& protection, std::uint64_t remote_address, RKey rkey) {
  begin(direction, blocks, remote_address, rkey);
  tuples_ = tuples;
  protection_ = protection;
}

void Transfer::end() {
  if (!std::exchange(has_begun_, false)) {
    return;  // as most requests that are retired
  }
  context_.destroy();
  tuples_ = {};
  protection_.reset();
  entries_ = 0;
}

Result<core::SignatureStatus> Transfer::protection_status() const {
  WEFT_ASSERT(is_protected() && entries_ != 0, "it was posted, with protection");
  return core::check_mr_status(*context_.signature_region());
}

std::uint32_t Transfer::regions_for(const core::Device& device, std::uint32_t transfers) {
  if (!core::context_uses_regions(device, core::DmaDirection::FromDevice, 1)) {
    return 0;
  }
  // A piece that begins within a page touches one more.
  constexpr std::uint32_t kPages = kMostBytes / kPageBytes + 1;
  const std::uint32_t each = std::max(1U, core::pages_of_context_region(device, false));
  return std::max(transfers, (kPages + each - 1) / each);
}

Result<std::uint32_t> Transfer::prepare(core::Qp& qp) {
  if (entries_ != 0) {
    return entries_;
  }
  list_.clear();  // of a try, or a transfer, before
  tuple_list_.clear();
  if (protection_) {
    list_pieces(list_, memory_, false);
    list_pieces(tuple_list_, tuples_, false);
    what_.list = list_;
    auto made = context_.init_signature(
        qp, qp.port(), what_, {.list = tuple_list_, .attributes = signature_of(*protection_)});
    entries_ = made.value_or(0);
    return made;
  }
  list_pieces(list_, memory_, core::context_uses_regions(qp.device(), what_.direction, 1));
  what_.list = list_;
  auto entries = context_.init(qp, qp.port(), what_);
  entries_ = entries.value_or(0);
  return entries;
}

const core::SendWr& Transfer::work_requests(const core::CompletionHandler& handler,
                                            const core::SendWr* chain) {
  return context_.work_requests(&handler, chain);
}

}  // namespace weft::iser
