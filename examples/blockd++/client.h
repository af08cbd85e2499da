#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cm/rdma_cm.h"
#include "core/device.h"
#include "core/mr.h"
#include "endpoint.h"
#include "protocol.h"

namespace weft::blockd {

/// One connection to a server. One thread calls it; events and completions come in others.
class Client final : private core::RdmaCmHandler {
 public:
  /// `wait` bounds everything that the server may take.
  Client(core::RdmaCm& cm, core::Environment& environment, Duration wait)
      : cm_(cm), environment_(environment), wait_(wait) {}
  ~Client();

  /// `memory` is what requests move data to and from. Under `global_key` it is a key of the PD for
  /// all memory that the server is told, else one of a region of just this.
  Result<void> connect(const core::RdmaCmAddress& server, MutableByteSpan memory, bool global_key);
  [[nodiscard]] const Export& offer() const { return export_; }
  [[nodiscard]] core::Device& device() const { return *id_->device(); }

  /// Moves blocks between the server and the place `offset` in memory, when a request is free.
  Result<void> start(Operation operation, std::uint64_t block, std::uint32_t blocks,
                     std::size_t offset);
  /// Until all that was started is answered; the first that was not done is the error.
  Result<void> finish();

 private:
  struct Slot {
    core::CompletionHandler received{.done = answer_came};  // first: found by its address
    struct {
      core::CompletionHandler handler{.done = request_sent};  // first, too
      Slot* slot{};
    } sent;
    Client* client{};
    std::array<std::byte, wire::kSizeOf<Request>> request{};
    std::array<std::byte, wire::kSizeOf<Answer>> answer{};
    // Which of kAwaitsSent and kAwaitsAnswer; free when none. An answer may come before the
    // acknowledgement of its request, which until then has a place in the send queue and may have
    // to be sent again from `request`.
    std::atomic<unsigned> awaits{};
  };
  static constexpr unsigned kAwaitsSent = 1;
  static constexpr unsigned kAwaitsAnswer = 2;

  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  static void answer_came(core::Cq& cq, const core::Wc& wc);
  static void request_sent(core::Cq& cq, const core::Wc& wc);
  void take_answer(const Answer& answer);
  void settle(Slot& slot, unsigned awaited);
  void lose(ErrorCode code, std::string_view why);
  Result<void> await(verbs::RdmaCmEventType type);
  Result<void> receive(Slot& slot);
  [[nodiscard]] Result<void> check_state();

  core::RdmaCm& cm_;
  core::Environment& environment_;
  const Duration wait_;
  std::unique_ptr<core::RdmaCmId> id_;
  std::array<Slot, kRequests> slots_;
  Endpoint endpoint_;
  core::Mr* region_{};
  MutableByteSpan memory_;
  RKey rkey_{};
  Export export_;
  std::atomic<unsigned> seen_{};  // bits of event types
  std::mutex mutex_;              // of what follows
  std::optional<Error> lost_;
};

}  // namespace weft::blockd
