#pragma once

// A QP's send queue as iSER uses it: requests keep what they send until they are retired, few of
// them are signalled, and there is always room for what was admitted.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/inplace_vector.h"
#include "base/result.h"
#include "core/qp.h"
#include "core/work_request.h"
#include "iscsi/pdu.h"
#include "ulp/iser/transfer.h"

namespace weft::iser {

class SendQueue;

/// One work request on its way, or those of a transfer. It and what it points to stay until it is
/// retired, which is when a completion says so, of itself or of a later one: until then the HCA may
/// send it again.
struct SendRequest {
  static constexpr std::size_t kMaxSges = 4;  // policy; every device has so many

  core::CompletionHandler handler;  // first: found by its address
  core::SendWr wr{};                ///< all but next, wr_id, sges and Signaled
  InplaceVector<verbs::Sge, kMaxSges> sges{};
  std::vector<std::byte> octets;           ///< sent from here, if `sges` says so
  std::optional<iscsi::OutgoingPdu> pdu;   ///< the same
  std::shared_ptr<const void> descriptor;  ///< the same
  bool must_signal{};                      ///< somebody waits for its end
  /// Called once when it is retired, in the order of posting.
  std::function<void(verbs::WcStatus status)> done;
  /// Before that, of a transfer with protection that has succeeded: what its checks have found.
  std::function<void(const core::SignatureStatus& status)> checked;

  SendQueue* queue{};
  std::uint64_t number{};
  std::uint32_t entries{1};     ///< of the send queue
  const core::SendWr* first{};  ///< of its work requests, once it is posted

  Transfer transfer;  ///< if it has begun, in place of `wr`; prepared; ends before `done` is called

  /// As new, but that `octets` and the lists of `transfer` may have room.
  void reset();
};
using SendRequests = std::vector<std::unique_ptr<SendRequest>>;

/// One thread: that of the QP's completions.
class SendQueue {
 public:
  struct Options {
    std::uint32_t depth{};            ///< entries; the QP has one more, for a marker
    std::uint32_t signal_interval{};  ///< every so manieth entry is signalled (R-ISER-23)
  };
  /// `handle_end` is called after each completion, with a status that is none of the requests'
  /// fault alone: what fails ends the QP.
  SendQueue(core::Qp& qp, Options options, std::function<void(verbs::WcStatus)> handle_end);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// Entries that are free.
  [[nodiscard]] std::uint32_t room() const { return options_.depth - entries_; }
  [[nodiscard]] bool is_idle() const { return posted_.empty(); }
  /// A request to be filled and posted: one that was retired, where there is any.
  [[nodiscard]] std::unique_ptr<SendRequest> take();
  /// Posts them as one chain, and empties the list; a transfer that ends it is signalled. TryAgain:
  /// there is no room now, and none was posted. Other refusals are the driver's, and those before
  /// the refused one are on their way: the QP must end. `refused` is given the others, in order,
  /// unless it is null.
  Result<void> post(SendRequests& requests, SendRequests* refused = nullptr);
  Result<void> post(SendRequests&& requests, SendRequests* refused = nullptr) {
    return post(requests, refused);
  }

  /// Behind everything; the QP is in ERR. `done` is called once all requests before are retired.
  Result<void> post_marker(std::function<void()> done);

  /// Requests that asked for a completion so far, and entries of all.
  [[nodiscard]] std::uint64_t signalled() const { return signalled_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Calls of post().
  [[nodiscard]] std::uint64_t chains() const { return chains_; }

 private:
  static void handle_completion(core::Cq& cq, const core::Wc& wc);
  void admit(std::unique_ptr<SendRequest> request, bool is_last);
  void take_back(std::size_t before, const core::SendWr* bad, SendRequests* refused);
  void retire(std::uint64_t number, verbs::WcStatus status);
  void keep(std::unique_ptr<SendRequest> request);

  core::Qp& qp_;
  const Options options_;
  std::function<void(verbs::WcStatus)> handle_end_;
  std::deque<std::unique_ptr<SendRequest>> posted_;  // in order
  SendRequests spare_;                               // that were retired
  std::uint64_t next_{};
  std::uint32_t entries_{};  // of what is posted
  std::uint64_t total_{};
  std::uint64_t signalled_{};
  std::uint64_t chains_{};
  std::uint32_t since_signal_{};
};

}  // namespace weft::iser
