#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "hca/hca.h"
#include "sim/outcome.h"
#include "sim/verdict.h"

namespace weft::sim {

/// One end of unacknowledged traffic: an application on a UC or UD QP that posts random messages,
/// and a checker that predicts the effect of each packet before the engine processes it. The
/// outcome is unknown for lost packets, but exactly determined for those that arrive. A QP in the
/// error state, caused for example by too long a message, is reset and continues.
class UnreliableEnd {
 public:
  UnreliableEnd(hca::Hca& hca, hca::ProtectionDomain& pd, hca::QpType type, Lid lid,
                std::uint64_t seed, std::uint32_t operations, Verdict& verdict);
  virtual ~UnreliableEnd() = default;
  UnreliableEnd(const UnreliableEnd&) = delete;
  UnreliableEnd& operator=(const UnreliableEnd&) = delete;

  /// Moves the QP to RTS from any state. The ends know each other by then.
  virtual void connect() = 0;

  /// Posts a message, a receive or nothing, chosen at random, and polls send completions.
  void act();

  /// Checks a packet that this end transmits.
  virtual void check_sent(const hca::Packet& packet) = 0;

  /// Predicts the effect of an undamaged packet that is about to be processed; check_arrival()
  /// compares it afterwards.
  virtual void expect(const hca::Packet& packet) = 0;
  void check_arrival();

  [[nodiscard]] bool is_finished() const { return left_ == 0 && in_flight_.empty(); }
  void check_at_end();

  [[nodiscard]] hca::Qp& qp() const { return *qp_; }
  [[nodiscard]] Lid lid() const { return lid_; }
  [[nodiscard]] std::uint64_t completions() const { return completions_; }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

 protected:
  /// Layout of an end's memory, in bytes. The gaps between the areas are guards and must never
  /// change.
  static constexpr std::size_t kGuard = 64;
  static constexpr std::size_t kSlot = 4096;
  static constexpr std::size_t kSlots = 8;
  static constexpr std::size_t kStride = kSlot + kGuard;
  static constexpr std::size_t kSendAt = kGuard;
  static constexpr std::size_t kReceiveAt = kSendAt + kSlots * kStride;
  static constexpr std::size_t kWriteAt = kReceiveAt + kSlots * kStride;
  static constexpr std::size_t kRegisteredEnd = kWriteAt + kSlots * kStride;
  static constexpr std::size_t kSize = kRegisteredEnd + kSlot;  // includes memory beyond the region

  static constexpr std::uint32_t kQueueDepth = 6;
  static constexpr std::uint32_t kInlineBytes = 64;

  struct Receive {
    std::uint64_t number{};
    std::size_t at{};
    std::uint32_t length{};
  };

  /// The expected next completion.
  struct Expected {
    hca::Wc wc;
    std::size_t payload_at{};  // in memory
    std::uint32_t payload_bytes{};
    const UnreliableEnd* sender{};
    std::uint64_t message{};
  };

  /// Creates and posts message `number`.
  virtual void post_message(std::uint64_t number) = 0;
  /// Further checks of a completion that matches so far.
  virtual void check_delivery(const Expected& /*expected*/, const Receive& /*receive*/) {}
  /// Further checks after a packet was processed.
  virtual void check_memory() {}

  /// Fills a send slot with message `number` and posts `wr`, with random signaling and inlining.
  void post(std::uint64_t number, std::uint32_t length, hca::SendWr& wr);
  void move_to(hca::QpAttributes& attributes, hca::QpState state, hca::QpAttributeMask mask);
  [[nodiscard]] const Receive* next_receive() const {
    return receives_.empty() ? nullptr : &receives_.front();
  }
  /// Completion of a message longer than `next_receive()`.
  [[nodiscard]] static hca::Wc too_long() {
    hca::Wc wc;
    wc.status = hca::WcStatus::LocalLengthError;
    return wc;
  }
  [[nodiscard]] bool holds(std::size_t at, std::uint32_t length, const UnreliableEnd& sender,
                           std::uint64_t message) const;
  [[nodiscard]] std::byte byte_of(std::uint64_t message, std::size_t at) const {
    return pattern(seed_, 1, message, at);
  }
  void check_payload(const hca::Packet& packet, std::uint64_t message, std::size_t offset);
  void report_failure(const std::string& what);

  hca::Hca& hca_;
  hca::ProtectionDomain& pd_;
  Random random_;
  std::uint64_t seed_;
  Lid lid_;
  Verdict& verdict_;
  std::vector<std::byte> memory_;
  hca::MemoryRegion* region_{};
  hca::Qp* qp_{};
  std::optional<Expected> expected_;

 private:
  void post_receive();
  void check_sends();
  void check_completion(const hca::Wc& wc);
  void check_flush(const hca::Wc& wc);
  void start_again();
  [[nodiscard]] std::byte guard(std::size_t at) const { return pattern(seed_, 2, 0, at); }

  struct Send {
    std::uint64_t number{};
    bool signaled{};
  };

  hca::CompletionQueue* send_cq_{};
  hca::CompletionQueue* recv_cq_{};
  std::uint32_t left_;
  std::uint64_t next_message_{};
  std::uint64_t next_receive_number_{};
  std::deque<Send> in_flight_;
  std::deque<Receive> receives_;  // posted and not completed, oldest first
  bool failed_{};
  std::uint64_t completions_{};
  std::uint64_t delivered_{};
  Digest digest_;
};

}  // namespace weft::sim
