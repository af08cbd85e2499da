#pragma once

#include <atomic>
#include <mutex>

#include "base/result.h"
#include "verbs_driver/library.h"

namespace weft::verbs_driver {

/// What stands behind a QP of the core. Any thread may post.
///
/// Soft-RoCE gives a program's receives back when the QP goes to the error state, and does not look
/// at those that come later, though a request that is posted in that state completes as flushed
/// (IBTA vol 1 §10.3.1): a drain's marker would never come. So the device is told the error state
/// once more after a receive that is posted in it.
class VerbsQp {
 public:
  /// Of a QP that the driver destroys.
  VerbsQp(const VerbsLibrary& library, ibv_qp& qp) : library_(library), qp_(qp) {}

  [[nodiscard]] ibv_qp& qp() const { return qp_; }

  Result<void> modify(ibv_qp_attr attributes, int mask);
  /// `*bad`: the first that was refused.
  Result<void> post_recv(ibv_recv_wr& first, ibv_recv_wr** bad);

 private:
  /// What was posted by this thread before is flushed.
  void flush_receives();

  const VerbsLibrary& library_;
  ibv_qp& qp_;
  std::mutex mutex_;  // of changes of the state
  std::atomic<bool> is_in_error_{};
};

}  // namespace weft::verbs_driver
