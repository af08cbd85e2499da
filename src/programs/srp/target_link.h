#pragma once

// What carries a channel of an SRP target: an RC QP, its id of RDMA-CM, receive buffers, and the
// moving of data. One thread: that of the environment.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/cm/rdma_cm.h"
#include "core/environment.h"
#include "core/pd.h"
#include "core/work.h"
#include "programs/srp/loop_cm_id.h"
#include "ulp/iser/channel.h"
#include "ulp/iser/shared_receives.h"
#include "ulp/srp/channel.h"
#include "ulp/srp/target.h"
#include "ulp/srp/target_connection.h"

namespace weft::programs::srp {

struct TargetLinkOptions {
  std::uint32_t receives{};  ///< a power of two; a quarter of them may not be posted at a time
  std::uint32_t max_initiator_iu{};
  std::uint32_t send_depth{1024};        ///< policy: work requests; what is beyond waits
  weft::iser::SharedReceives* shared{};  ///< instead of receives of its own
  std::uint8_t reads{4};                 ///< RDMA READs under way at once, at most (R-SRPT-6)
};

class TargetLink final : public weft::srp::TargetConnection, private weft::iser::ChannelClient {
 public:
  /// `request` asked for `offered`. `settled` is called after each event, when nothing of a channel
  /// is on the stack that was not there before.
  TargetLink(core::Environment& environment, core::Pd& pd, std::unique_ptr<core::RdmaCmId> request,
             const verbs::ConnectionParameters& offered, const TargetLinkOptions& options,
             std::function<void()> settled);
  ~TargetLink() override;

  /// Whose events they are, once the login is taken.
  void bind(weft::srp::Target& target, weft::srp::ChannelId channel);
  /// No completion comes any more. Its channel may still be there.
  [[nodiscard]] bool is_quiet() const { return channel_ == nullptr || is_drained_; }
  /// Null: released, or not taken.
  [[nodiscard]] weft::srp::Channel* channel();
  /// Null: no login was taken.
  [[nodiscard]] const weft::srp::Target* target() const { return target_; }

  Result<void> prepare() override;
  void accept(ByteSpan login_rsp) override;
  void reject(ByteSpan login_rej) override;
  void make_ready_to_send() override {}  // librdmacm has, with the REP
  void send_dreq() override;
  void send_drep() override { disconnect(); }
  void fail() override;
  Result<void> post_send(std::size_t slot, ByteSpan unit) override;
  Result<void> post_read(std::size_t slot, std::span<const weft::srp::Segment> from,
                         MutableByteSpan into) override;
  Result<void> post_write_and_send(std::size_t slot, std::span<const ByteSpan> data,
                                   std::span<const weft::srp::Segment> to, ByteSpan unit) override;
  Result<void> post_marker() override;

 private:
  using Request = std::unique_ptr<weft::iser::SendRequest>;

  void handle_message(weft::iser::ReceiveBuffer& buffer, ByteSpan octets,
                      std::optional<RKey> invalidated) override;
  void handle_failure(verbs::WcStatus status) override;
  void handle_room() override { post_waiting(); }
  void handle_batch_end() override { flush(); }
  void handle_drained() override;
  void handle_cm(const core::RdmaCmEvent& event);
  static void handle_qp_event(const core::Event& event, void* link);
  void establish();
  void handle_last_receive();
  void disconnect();
  template <class Tell>
  void tell(Tell to);
  [[nodiscard]] Result<void> check_open() const;
  void post_waiting();
  [[nodiscard]] Request make_response(std::size_t slot, ByteSpan unit);
  void handle_response_done(std::size_t slot, verbs::WcStatus status);
  void flush();

  core::Environment& environment_;
  core::Pd& pd_;
  const verbs::ConnectionParameters offered_;
  const TargetLinkOptions options_;
  std::function<void()> settled_;
  weft::srp::Target* target_{};
  weft::srp::ChannelId id_{};
  std::unique_ptr<weft::iser::Channel> channel_;
  LoopCmId cm_;
  std::deque<Request> waiting_;         // for the end of a batch of completions, or room; in order
  weft::iser::SendRequests chain_;      // empty but while it is posted, as the next one
  weft::iser::SendRequests responses_;  // of the chain
  bool has_failed_{};                   // by fail()
  bool is_drained_{};
  bool marker_is_due_{};
  bool has_early_message_{};  // one came before the RTU
  core::Work linger_work_;    // DREQ, when what was to be sent before it is not
  core::Work close_work_;     // what fails inside a call is told later
  core::Work establish_work_;
  core::Work last_receive_work_;  // an event of the QP
  core::Work patience_work_;      // as if that had come
};

}  // namespace weft::programs::srp
