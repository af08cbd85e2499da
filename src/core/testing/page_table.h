#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/lock.h"
#include "core/address_space.h"

namespace weft::core::testing {

/// An address space whose pages a test maps, each to any place in this process's memory.
class PageTable : public AddressSpace {
 public:
  static constexpr std::uint32_t kPage = 4'096;
  struct Page {
    std::uint64_t frame{};
    bool is_writable{true};
    std::uint32_t pins{};
    bool is_dirty{};
  };

  explicit PageTable(LockPolicy policy = LockPolicy::None) : AddressSpace(policy), lock_(policy) {}

  /// Maps `count` pages from `start` on to memory from `frame` on.
  void map(std::uint64_t start, std::uint64_t count, std::uint64_t frame, bool is_writable = true) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pages[start + i * kPage] = {.frame = frame + i * kPage, .is_writable = is_writable};
    }
  }
  [[nodiscard]] std::uint64_t pins() const {
    std::uint64_t sum = 0;
    for (const auto& [address, page] : pages) {
      sum += page.pins;
    }
    return sum;
  }

  // --- AddressSpace
  [[nodiscard]] std::uint32_t page_size() const override { return kPage; }
  [[nodiscard]] std::uint64_t lock_limit() const override { return limit; }
  Result<void> pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                   std::vector<std::uint64_t>& into) override {
    if (on_pin) {
      on_pin();
    }
    const std::lock_guard lock{lock_};
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto found = pages.find(start + i * kPage);
      if (found == pages.end() || (for_writing && !found->second.is_writable)) {
        return fail(ErrorCode::BadAddress, "no page at {:#x}", start + i * kPage);
      }
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      Page& page = pages[start + i * kPage];
      ++page.pins;
      into.push_back(page.frame);
    }
    return {};
  }
  void unpin(std::uint64_t start, std::uint64_t count, bool is_dirty) override {
    const std::lock_guard lock{lock_};
    for (std::uint64_t i = 0; i < count; ++i) {
      Page& page = pages.at(start + i * kPage);
      --page.pins;
      page.is_dirty |= is_dirty;
    }
  }

  [[nodiscard]] bool is_alive() const override { return lives; }

  std::function<void()> on_pin;  ///< something that happens meanwhile
  bool lives{true};
  std::map<std::uint64_t, Page> pages;  ///< by address
  std::uint64_t limit{~std::uint64_t{0}};

 private:
  PolicyLock lock_;  // of the pins
};

}  // namespace weft::core::testing
