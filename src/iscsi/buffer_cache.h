#pragma once

#include <cstddef>
#include <memory>

#include "iscsi/pdu.h"

namespace weft::iscsi {

/// Buffers of commands that have ended, for those to come: a heap has short ones at hand, and takes
/// its time for longer ones. What is in them is what was left there. One thread, also for
/// whoever lets the last part of a buffer go while the cache is there.
class BufferCache {
 public:
  BufferCache();

  /// Goes back when its last holder lets it go; it may outlive the cache.
  [[nodiscard]] SharedBuffer take(std::size_t bytes);

  // Policy.
  static constexpr std::size_t kShortest = 1'024;      ///< shorter ones are the heap's
  static constexpr std::size_t kLongest = 64 * 1'024;  ///< and so are longer ones
  static constexpr std::size_t kKept = 64;             ///< of each power of two

 private:
  struct Spares;
  std::shared_ptr<Spares> spares_;
};

}  // namespace weft::iscsi
