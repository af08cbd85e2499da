#pragma once

// The QP of an iSER connection with its CQ, receive buffers and the way to its last completion, the
// same for both ends.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cq.h"
#include "core/pd.h"
#include "core/qp.h"
#include "ulp/iser/send_queue.h"

namespace weft::iser {

class Channel;
class SharedReceives;

/// A receive that is posted, or whose message somebody reads.
struct ReceiveBuffer {
  core::CompletionHandler handler;  // first: found by its address
  std::vector<std::byte> octets;
  Channel* channel{};  ///< null: of all that share it
  SharedReceives* shared{};
  bool is_of_ring{};  ///< posted again when it is given back
};

/// The end that has the channel. Nothing is called from inside a call of the channel.
class ChannelClient {
 public:
  /// The buffer is the client's until it gives it back. `invalidated` is the key that the peer's
  /// SEND took away here.
  virtual void handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                              std::optional<RKey> invalidated) = 0;
  /// A request or receive has failed, or was flushed: the QP is of no use. May come often.
  virtual void handle_failure(verbs::WcStatus status) = 0;
  /// Requests were retired.
  virtual void handle_room() = 0;
  /// After drain(): the last call, but for handle_batch_end().
  virtual void handle_drained() = 0;
  /// After calls for completions that came together: what they have made ready may be posted as one
  /// chain.
  virtual void handle_batch_end() {}

 protected:
  ~ChannelClient() = default;
};

struct ChannelOptions {
  std::uint32_t send_depth{};
  std::uint32_t receive_depth{};
  std::uint32_t signal_interval{1};
  SharedReceives* shared{};  ///< receives from there alone, which outlives it
  std::uint32_t regions{};   ///< for transfers; 0: they need none
  bool has_integrity{};      ///< registers regions with protection information
  Duration cq_lingers{};     ///< core::CqInit::lingers
  const char* caller{"iser"};
  core::ObjectEventHandler qp_event{};  ///< of the QP's asynchronous events: it must not sleep
  void* qp_context{};
};

/// One thread: that of its completions.
class Channel {
 public:
  static constexpr std::uint32_t kMaxSges = SendRequest::kMaxSges;

  static Result<std::unique_ptr<Channel>> create(core::Pd& pd, const ChannelOptions& options,
                                                 ChannelClient& client);
  /// Drained, or never connected. Not from inside a completion.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] core::Qp& qp() { return *qp_; }
  [[nodiscard]] SendQueue& sends() { return *sends_; }
  /// The client is being called for completions, and handle_batch_end() follows.
  [[nodiscard]] bool is_in_batch() const { return cq_->is_in_batch(); }
  /// A message that is made of its own octets, or a copy of some.
  [[nodiscard]] std::unique_ptr<SendRequest> make_send(std::vector<std::byte>&& octets);
  [[nodiscard]] std::unique_ptr<SendRequest> make_send(ByteSpan octets);
  [[nodiscard]] verbs::Sge sge_of(ByteSpan octets) const;

  /// One receive of so many bytes, which is not posted again: for logins.
  Result<void> post_single(std::size_t bytes);
  /// `count` receives of so many bytes each, which stay; a power of two. They are posted again a
  /// quarter of them at a time (R-ISER-23).
  Result<void> open_ring(std::uint32_t count, std::size_t bytes);
  void give_back(ReceiveBuffer& buffer);
  [[nodiscard]] std::uint32_t posted_receives() const { return posted_receives_; }
  /// Chains of receives that were posted for the ring.
  [[nodiscard]] std::uint64_t receive_batches() const { return receive_batches_; }

  /// Takes the QP to ERR; handle_drained() follows when every completion has been consumed, with
  /// shared receives after handle_last_receive(). Again: nothing.
  void drain();
  /// Of shared receives: QpLastWqeReached has come, so that the QP takes none any more (IBTA vol 1
  /// §10.2.9.2). Any number of times, in the channel's thread.
  void handle_last_receive();
  [[nodiscard]] bool is_draining() const { return is_draining_; }

 private:
  friend class SharedReceives;
  struct Marker {
    core::CompletionHandler handler;  // first: found by its address
    Channel* channel{};
  };
  Channel(core::Pd& pd, ChannelClient& client) : pd_(pd), client_(client) {}
  static void handle_receive(core::Cq& cq, const core::Wc& wc);
  static void handle_marker(core::Cq& cq, const core::Wc& wc);
  [[nodiscard]] std::unique_ptr<SendRequest> finish_send(
      std::unique_ptr<SendRequest> request) const;
  void finish_marker();
  void post_send_marker();
  Result<void> post_batch(std::uint32_t count);
  [[nodiscard]] core::RecvWr receive_of(ReceiveBuffer& buffer, verbs::Sge& sge) const;

  core::Pd& pd_;
  ChannelClient& client_;
  core::Cq* cq_{};
  core::Qp* qp_{};
  std::unique_ptr<SendQueue> sends_;
  std::vector<std::unique_ptr<ReceiveBuffer>> buffers_;
  std::vector<ReceiveBuffer*> free_;  // of the ring, to be posted again
  std::uint32_t ring_batch_{};
  std::uint32_t posted_receives_{};
  std::uint64_t receive_batches_{};
  Marker receive_marker_;
  unsigned markers_{};  // that are awaited
  SharedReceives* shared_{};
  bool has_last_receive_{};
  bool is_draining_{};
};

}  // namespace weft::iser
