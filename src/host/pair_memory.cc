#include "host/pair_memory.h"

namespace weft::host {
namespace {

constexpr std::size_t kPage = 4'096;
constexpr std::size_t kAttentionAt = (kPairMemoryBytes + kPage - 1) / kPage * kPage;

}  // namespace

Result<std::unique_ptr<PairMemory>> PairMemory::reserve() {
  auto place = os::reserve_memory(kAttentionAt + kAttentionPageBytes);
  if (!place) {
    return std::unexpected(place.error());
  }
  return std::unique_ptr<PairMemory>{new PairMemory{std::move(*place)}};
}

PairMemory::PairMemory(os::Mapping place) : place_(std::move(place)) { part(); }

AttentionPage& PairMemory::attention() const {
  void* const start = attention_.data();
  return *static_cast<AttentionPage*>(start);
}

Result<void> PairMemory::join(const os::UniqueFd& lanes, const os::UniqueFd& attention) {
  const auto joined_lanes = os::map_shared_at(lanes_, lanes);
  const auto joined_attention =
      joined_lanes ? os::map_shared_at(attention_, attention) : joined_lanes;
  if (!joined_attention) {
    part();
    return std::unexpected(joined_attention.error());
  }
  lanes_ = *joined_lanes;
  attention_ = *joined_attention;
  return {};
}

void PairMemory::part() {
  os::clear_reserved(place_.bytes());
  lanes_ = place_.bytes().first(kPairMemoryBytes);
  attention_ = place_.bytes().subspan(kAttentionAt, kAttentionPageBytes);
}

}  // namespace weft::host
