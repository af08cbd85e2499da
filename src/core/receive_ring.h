#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "core/qp.h"
#include "core/work_request.h"

namespace weft::core {

/// The receive queue of a QP, kept full by the core: when a buffer's completion is polled its user
/// gets the data, and the buffer is posted again (R-MI-12). The user polls nothing: its CQ is a
/// managed one, which the core polls when its event comes (R-MI-11). The QP belongs to the user;
/// its receive queue is the ring's alone. Handlers are called as those of the CQ are.
class ReceiveRing {
 public:
  /// `data` is what the message contains, without the GRH that a UD QP's buffer begins with; it is
  /// valid during the call.
  using Handler = void (*)(void* context, const Wc& wc, ByteSpan data);

  struct Init {
    std::uint32_t buffers{};       ///< at most the receive queue's depth
    std::uint32_t buffer_bytes{};  ///< of the longest message; the room for a GRH comes on top
    Handler handler{};
    void* context{};
  };

  /// InvalidArgument: no buffers or no handler, a QP that receives from an SRQ or into a CQ that
  /// its user polls.
  static Result<std::unique_ptr<ReceiveRing>> make(Qp& qp, const Init& init);
  /// The QP is destroyed, or in error and wait_empty() has returned.
  ~ReceiveRing();
  ReceiveRing(const ReceiveRing&) = delete;
  ReceiveRing& operator=(const ReceiveRing&) = delete;

  /// Posts every buffer that is not posted; the QP has left RESET. Once it is in error they come
  /// back flushed and stay.
  Result<void> fill();

  /// Buffers that are posted, or whose completion is still to be polled.
  [[nodiscard]] std::uint32_t posted() const { return posted_.load(std::memory_order_acquire); }
  /// After the QP went to error: waits until every buffer is back. Not from the handler.
  void wait_empty();

 private:
  struct Buffer {
    CompletionHandler handler{};  // first: found by its address
    ReceiveRing* ring{};
    std::size_t offset{};  // in memory_
    bool is_posted{};
  };

  ReceiveRing(Qp& qp, const Init& init);
  static void done(Cq& cq, const Wc& wc);
  void take(Buffer& buffer, const Wc& wc);
  Result<void> post(Buffer& buffer);

  Qp& qp_;
  const Init init_;
  const std::uint32_t grh_bytes_;  // before the data, of UD
  std::vector<std::byte> memory_;
  std::vector<Buffer> buffers_;
  std::atomic<std::uint32_t> posted_{};
};

}  // namespace weft::core
