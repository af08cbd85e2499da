#include "verbs_driver/registrations.h"

#include <algorithm>

namespace weft::verbs_driver {

Registrations::~Registrations() {
  for (const auto& [begin, entry] : kept_) {
    registrar_.remove(entry);
  }
}

Result<LKey> Registrations::key_of(std::uint64_t address, std::uint64_t length) {
  constexpr std::uint64_t kLast = ~std::uint64_t{0} - kPageBytes;
  if (address > kLast || length > kLast - address) {
    return fail(ErrorCode::BadAddress, "{} bytes at {:#x} go beyond the last address", length,
                address);
  }
  const std::lock_guard lock{mutex_};
  for (auto after = kept_.upper_bound(address); after != kept_.begin();) {
    --after;
    const auto& [begin, entry] = *after;
    if (address - begin > longest_) {
      break;  // those before end before it, too
    }
    if (address + length <= begin + entry.length) {
      return entry.lkey;
    }
  }
  if (kept_.size() == limit_) {
    return fail(ErrorCode::OutOfMemory,
                "{} pieces of memory are registered; take buffers of requests from the device's "
                "arena, or forget those that are not used any more",
                limit_);
  }
  const std::uint64_t begin = address / kPageBytes * kPageBytes;
  const std::uint64_t end =
      (address + std::max<std::uint64_t>(length, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto made = registrar_.add(begin, end - begin);
  if (!made) {
    return std::unexpected(made.error());
  }
  longest_ = std::max(longest_, made->length);
  return kept_.emplace(begin, *made)->second.lkey;
}

void Registrations::forget(std::uint64_t address, std::uint64_t length) {
  const std::lock_guard lock{mutex_};
  std::erase_if(kept_, [&](const auto& one) {
    const auto& [begin, entry] = one;
    const bool touches = begin < address + length && address < begin + entry.length;
    if (touches) {
      registrar_.remove(entry);
    }
    return touches;
  });
}

std::size_t Registrations::size() const {
  const std::lock_guard lock{mutex_};
  return kept_.size();
}

}  // namespace weft::verbs_driver
