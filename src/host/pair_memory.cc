#include "host/pair_memory.h"

namespace weft::host {
namespace {

constexpr std::size_t kPage = 4'096;
constexpr std::size_t kAttentionAt = (kPairMemoryBytes + kPage - 1) / kPage * kPage;

}  // namespace

Result<std::unique_ptr<PairMemory>> PairMemory::reserve() {
  auto place = reserve_memory(kAttentionAt + kAttentionPageBytes);
  if (!place) {
    return std::unexpected(place.error());
  }
  return std::unique_ptr<PairMemory>{new PairMemory{std::move(*place)}};
}

MutableByteSpan PairMemory::attention_bytes() const {
  return place_.bytes().subspan(kAttentionAt, kAttentionPageBytes);
}

AttentionPage& PairMemory::attention() const {
  void* const start = attention_bytes().data();
  return *static_cast<AttentionPage*>(start);
}

Result<void> PairMemory::join(const UniqueFd& lanes, const UniqueFd& attention) {
  if (auto put = map_shared_at(this->lanes(), lanes); !put) {
    return put;
  }
  auto put = map_shared_at(attention_bytes(), attention);
  if (!put) {
    part();
  }
  return put;
}

void PairMemory::part() { clear_reserved(place_.bytes()); }

}  // namespace weft::host
