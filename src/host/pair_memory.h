#pragma once

#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "host/lane_memory.h"
#include "os/shared_memory.h"
#include "os/unique_fd.h"

namespace weft::host {

/// Where this process has the memory that it shares with one other: their lanes, and the other's
/// attention page. The place stays readable and writable for good; while the two are not joined,
/// private zero pages lie there. So whoever looks whether something came needs no lock against its
/// going away, and sees rings in which nothing is.
class PairMemory {
 public:
  [[nodiscard]] static Result<std::unique_ptr<PairMemory>> reserve();

  /// Refuses what is not sealed, or not of the right size; nothing has changed then.
  [[nodiscard]] Result<void> join(const os::UniqueFd& lanes, const os::UniqueFd& attention);
  void part();

  [[nodiscard]] MutableByteSpan lanes() const { return lanes_; }
  [[nodiscard]] AttentionPage& attention() const;

 private:
  explicit PairMemory(os::Mapping place);

  os::Mapping place_;
  MutableByteSpan lanes_;
  MutableByteSpan attention_;
};

}  // namespace weft::host
