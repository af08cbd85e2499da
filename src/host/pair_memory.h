#pragma once

#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "host/lane_memory.h"
#include "os/shared_memory.h"
#include "os/unique_fd.h"

namespace weft::host {

/// The address range for memory shared with one other process: their lanes, and the other's
/// attention page. It always stays readable and writable: while the two are not joined, it maps
/// private zero pages. So threads can poll it without a lock that would keep it mapped, and find
/// empty rings.
class PairMemory {
 public:
  /// Reserves the address range and maps private zero pages.
  [[nodiscard]] static Result<std::unique_ptr<PairMemory>> reserve();

  /// Maps the shared memory. Refuses, without effect, memory that is not sealed or has the wrong
  /// size.
  [[nodiscard]] Result<void> join(const os::UniqueFd& lanes, const os::UniqueFd& attention);
  /// Maps private zero pages again.
  void part();

  [[nodiscard]] MutableByteSpan lanes() const { return lanes_; }
  /// The other process's attention page, or a private one while the two are not joined.
  [[nodiscard]] AttentionPage& attention() const;

 private:
  explicit PairMemory(os::Mapping place);

  os::Mapping place_;
  MutableByteSpan lanes_;
  MutableByteSpan attention_;
};

}  // namespace weft::host
