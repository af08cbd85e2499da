#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "hca/hca.h"
#include "sim/process.h"
#include "sim/verdict.h"

namespace weft::sim {

/// How one end's memory is laid out, in bytes. Everything between the parts is guard and must never
/// change.
struct MemoryPlan {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::size_t kSlot = 4096;  // one message
  static constexpr std::size_t kSlots = 8;    // of each kind
  static constexpr std::size_t kSendAt = kGuard;
  static constexpr std::size_t kReceiveAt = kSendAt + kSlots * (kSlot + kGuard);
  static constexpr std::size_t kWriteAt =
      kReceiveAt + kSlots * (kSlot + kGuard);  // target of the peer's WRITEs
  static constexpr std::size_t kReadAt =
      kWriteAt + kSlots * (kSlot + kGuard);  // where our READs land
  static constexpr std::size_t kSourceAt =
      kReadAt + kSlots * (kSlot + kGuard);  // what the peer READs; constant
  static constexpr std::size_t kWordAt =
      kSourceAt + 2 * kSlot + kGuard;  // the peer's atomics act here
  static constexpr std::size_t kResultAt = kWordAt + kGuard;
  static constexpr std::size_t kRegisteredEnd = kResultAt + kSlots * 64;
  static constexpr std::size_t kSize = kRegisteredEnd + kSlot;  // beyond the region: never touched
};

/// One end of a connection: an application that posts random operations and checks all that it
/// sees. The ends of a pair know each other, since only then can the checks be exact.
class RcEnd {
  struct Message {  // that takes a receive at the peer
    hca::WrOpcode opcode{};
    std::uint64_t number{};  // of its operation
    std::uint32_t length{};
  };
  struct Written {  // by a WRITE
    std::uint64_t number{};
    std::uint32_t length{};
  };
  struct Operation {
    std::uint64_t number{};
    hca::WrOpcode opcode{};
    std::size_t slot{};
    std::uint32_t length{};
    bool signaled{};
    bool must_fail{};
    std::uint64_t sequence{};  // of messages that take a receive; an atomic's original
    std::uint64_t read_offset{};
    Written flushed;  // of a FLUSH: what it is about
    bool persists{};
  };

 public:
  RcEnd(Process& process, std::uint64_t seed, std::uint32_t operations,
        std::uint32_t max_message_bytes, bool over_xrc, Verdict& verdict);

  void introduce(RcEnd& peer, Lid own, Lid other);
  /// Before connect(): by the second port, to that LID.
  void prepare_second_path(Lid other) { second_other_ = other; }
  void connect();

  /// Posts one more operation or a few receives if the dice say so and there is room.
  void act();

  /// Takes completions and checks them.
  void poll();

  /// Nothing more is to come: everything posted is completed and no operations are left.
  /// After a failure, unsignaled WQEs that had succeeded in silence may stand before it.
  [[nodiscard]] bool is_finished() const {
    const bool silent = failed_ && std::ranges::none_of(in_flight_, &Operation::signaled);
    return silent || (in_flight_.empty() && left_ == 0);
  }
  [[nodiscard]] bool failed() const { return failed_; }

  /// Its QPs may migrate to their second path.
  [[nodiscard]] bool is_armed() const;

  /// The peer died or cannot be reached: errors are right from now on.
  void peer_may_fall_silent() { peer_may_be_silent_ = true; }

  void check_at_end(bool peer_alive);

  [[nodiscard]] hca::Qp& qp() { return *qp_; }
  [[nodiscard]] std::uint64_t completions() const { return completions_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  [[nodiscard]] std::uint64_t recv_cq_unpolled() const;
  void post_operation();
  [[nodiscard]] Operation choose_operation();
  void aim(Operation& operation, hca::SendWr& wr);
  [[nodiscard]] Operation choose_flush(Operation operation);
  [[nodiscard]] bool is_kept(const Operation& flush) const;
  void post(const Operation& operation, hca::SendWr& wr);
  [[nodiscard]] std::size_t local_at(const Operation& operation) const;
  void post_receive();
  void check_completion(const hca::Wc& wc);
  void check_success(const Operation& operation);
  void check_receive(const hca::Wc& wc);
  void bring_up(hca::Qp& qp, const hca::Qp& to);
  void fall();
  void complain(const std::string& what);
  [[nodiscard]] std::byte pattern(std::uint64_t stream, std::uint64_t number, std::size_t at) const;
  void fill(std::size_t at, std::uint32_t length, std::uint64_t stream, std::uint64_t number);
  [[nodiscard]] bool holds(const RcEnd& end, std::size_t at, std::uint32_t length,
                           std::uint64_t stream, std::uint64_t number) const;
  [[nodiscard]] std::size_t slot_at(std::size_t base, std::size_t slot) const {
    return base + slot * (MemoryPlan::kSlot + MemoryPlan::kGuard);
  }
  [[nodiscard]] std::uint64_t word_of(const RcEnd& end, std::size_t at) const;

  DurableMemory& durable_;
  Random random_;
  Verdict& verdict_;
  std::uint32_t left_;
  std::uint32_t max_message_bytes_;
  std::vector<std::byte> memory_;
  hca::MemoryRegion* region_{};
  hca::CompletionQueue* send_cq_{};
  hca::CompletionQueue* recv_cq_{};
  hca::Qp* qp_{};      // sends
  hca::Qp* target_{};  // receives: the same, but over XRC
  hca::SharedReceiveQueue* xrc_srq_{};
  RcEnd* peer_{};
  Lid own_;
  Lid other_;
  Lid second_other_;  // 0: there is but one path
  std::uint64_t seed_;

  std::deque<Operation> in_flight_;
  std::uint64_t next_number_{};
  std::optional<Written> last_write_;
  std::uint64_t messages_posted_{};
  std::uint64_t messages_received_{};
  std::deque<Message> under_way_;  // what the peer has not received yet
  std::uint64_t receives_posted_{};
  std::uint64_t receives_done_{};
  std::uint64_t word_{};  // at the peer, where only our atomics act
  std::uint64_t completions_{};
  std::uint64_t digest_{0xCBF2'9CE4'8422'2325};
  bool failed_{};
  bool expects_failure_{};
  bool peer_may_be_silent_{};
};

}  // namespace weft::sim
