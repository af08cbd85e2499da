#include "verbs_driver/registrations.h"

#include <algorithm>
#include <bit>

namespace weft::verbs_driver {
namespace {

[[nodiscard]] constexpr std::uint64_t down(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}

}  // namespace

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
  const Range pages{
      .begin = down(address, kPageBytes),
      .end = down(address + std::max<std::uint64_t>(length, 1) + kPageBytes - 1, kPageBytes)};
  const Range wide = widened(pages);
  auto made = keep(wide);
  const bool is_wider = wide.begin != pages.begin || wide.end != pages.end;
  return made || !is_wider ? made : keep(pages);  // a limit of locked memory may have room for it
}

/// With what is around the pages, up to borders that lie kAroundBytes or more apart.
Registrations::Range Registrations::widened(const Range& pages) const {
  if (!registrar_.around) {
    return pages;
  }
  const Range there = registrar_.around();
  if (pages.begin < there.begin || pages.end > there.end) {
    return pages;
  }
  const std::uint64_t unit =
      std::max(kAroundBytes, std::bit_ceil((there.end - there.begin) / kPartsOfAll));
  return {.begin = std::max(there.begin, down(pages.begin, unit)),
          .end = std::min(there.end, down(pages.end + unit - 1, unit))};
}

Result<LKey> Registrations::keep(const Range& range) {
  auto made = registrar_.add(range.begin, range.end - range.begin);
  if (!made) {
    return std::unexpected(made.error());
  }
  longest_ = std::max(longest_, made->length);
  return kept_.emplace(range.begin, *made)->second.lkey;
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
