#include "iscsi/buffer_cache.h"

#include <bit>
#include <map>
#include <utility>
#include <vector>

namespace weft::iscsi {

struct BufferCache::Spares {
  using Buffer = std::unique_ptr<std::byte[]>;

  [[nodiscard]] Buffer take(std::size_t bytes) {
    std::vector<Buffer>& these = by_length[bytes];
    if (these.empty()) {
      return nullptr;
    }
    Buffer taken = std::move(these.back());
    these.pop_back();
    return taken;
  }
  void give_back(std::size_t bytes, Buffer buffer) {
    if (std::vector<Buffer>& these = by_length[bytes]; these.size() < kKept) {
      these.push_back(std::move(buffer));
    }
  }

  std::map<std::size_t, std::vector<Buffer>> by_length;
};

BufferCache::BufferCache() : spares_(std::make_shared<Spares>()) {}

SharedBuffer BufferCache::take(std::size_t bytes) {
  if (bytes < kShortest || bytes > kLongest) {
    return SharedBuffer{bytes};
  }
  const std::size_t length = std::bit_ceil(bytes);  // few lengths: what is kept is bounded
  Spares::Buffer buffer = spares_->take(length);
  if (buffer == nullptr) {
    buffer = std::make_unique_for_overwrite<std::byte[]>(length);
  }
  const auto give_back = [spares = std::weak_ptr{spares_}, length](std::byte* octets) {
    Spares::Buffer owned{octets};
    if (const auto to = spares.lock()) {
      to->give_back(length, std::move(owned));
    }
  };
  return {
      std::shared_ptr<std::byte[]>{buffer.release(), give_back},
      bytes
  };
}

}  // namespace weft::iscsi
