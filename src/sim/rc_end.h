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

/// Layout of an end's memory, in bytes. The gaps between the areas are guards and must never
/// change.
struct MemoryPlan {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::size_t kSlot = 4096;  // one message
  static constexpr std::size_t kSlots = 8;    // of each area
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

/// One end of a connection: an application that posts random operations and checks all results.
/// Both ends of a pair know each other, because exact checks require it. Not thread-safe.
class RcEnd {
  struct Message {  // consumes a receive of the peer
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
    // of messages that consume a receive; for an atomic, the original value
    std::uint64_t sequence{};
    std::uint64_t read_offset{};
    Written flushed;  // of a FLUSH: what it is about
    bool persists{};
  };

 public:
  RcEnd(Process& process, std::uint64_t seed, std::uint32_t operations,
        std::uint32_t max_message_bytes, bool over_xrc, Verdict& verdict);

  void introduce(RcEnd& peer, Lid own, Lid other);
  /// Adds the second port as alternate path, to that LID. Call before connect().
  void prepare_second_path(Lid other) { second_other_ = other; }
  void connect();
  /// Now and then its region is registered anew with other memory, and nobody may write to the old.
  void let_memory_move() { moves_memory_ = true; }

  /// What must fail in the end may be an atomic: at an odd address, or of a peer that refuses them.
  void try_bad_atomics() { tries_bad_atomics_ = true; }
  /// Its QP lacks the right to atomics. Call before connect().
  void refuse_atomics() { takes_atomics_ = false; }

  /// One of its operations is about to be placed: all before it must have taken effect.
  void check_order(const hca::PlacementTarget& target);

  /// Posts an operation or some receives, chosen at random, if there is room.
  void act();

  /// Polls completions and checks them.
  void poll();

  /// All posted operations completed and none are left. After a failure, unsignaled WQEs that
  /// succeeded may remain in front of it.
  [[nodiscard]] bool is_finished() const {
    const bool silent = failed_ && std::ranges::none_of(in_flight_, &Operation::signaled);
    return silent || (in_flight_.empty() && left_ == 0);
  }
  [[nodiscard]] bool failed() const { return failed_; }

  /// Both QPs can migrate to the alternate path.
  [[nodiscard]] bool is_armed() const;

  /// The peer died or is unreachable: from now on errors are legitimate.
  void allow_silent_peer() { peer_may_be_silent_ = true; }

  void check_at_end(bool peer_alive);

  [[nodiscard]] hca::Qp& qp() { return *qp_; }
  [[nodiscard]] std::uint64_t completions() const { return completions_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  [[nodiscard]] std::uint64_t recv_cq_unpolled() const;
  void post_operation();
  [[nodiscard]] Operation choose_operation();
  void choose_failure(Operation& operation) const;
  void aim(Operation& operation, hca::SendWr& wr);
  [[nodiscard]] Operation choose_flush(Operation operation);
  [[nodiscard]] bool is_kept(const Operation& flush) const;
  void post(const Operation& operation, hca::SendWr& wr);
  [[nodiscard]] std::size_t local_at(const Operation& operation) const;
  void post_receive();
  [[nodiscard]] std::size_t remote_at(const Operation& operation) const;
  void move_memory();
  void check_left_memory();
  void check_completion(const hca::Wc& wc);
  void check_success(const Operation& operation);
  void check_receive(const hca::Wc& wc);
  void bring_up(hca::Qp& qp, const hca::Qp& to);
  void fail_qp();
  void report_failure(const std::string& what);
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
  hca::Hca& hca_;
  hca::ProtectionDomain& pd_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> left_memory_;  // that the region was registered with before
  bool moves_memory_{};
  bool has_left_memory_{};
  bool takes_atomics_{true};
  bool tries_bad_atomics_{};
  hca::MemoryRegion* region_{};
  hca::CompletionQueue* send_cq_{};
  hca::CompletionQueue* recv_cq_{};
  hca::Qp* qp_{};      // sends
  hca::Qp* target_{};  // receives; differs from qp_ with XRC
  hca::SharedReceiveQueue* xrc_srq_{};
  RcEnd* peer_{};
  Lid own_;
  Lid other_;
  Lid second_other_;  // 0: no second path
  std::uint64_t seed_;

  std::deque<Operation> in_flight_;
  std::uint64_t next_number_{};
  std::optional<Written> last_write_;
  std::uint64_t messages_posted_{};
  std::uint64_t messages_received_{};
  std::deque<Message> under_way_;  // not yet received by the peer
  std::uint64_t receives_posted_{};
  std::uint64_t receives_done_{};
  std::uint64_t word_{};  // value at the peer, which only our atomics change
  std::uint64_t completions_{};
  std::uint64_t digest_{0xCBF2'9CE4'8422'2325};
  bool failed_{};
  bool expects_failure_{};
  bool peer_may_be_silent_{};
};

}  // namespace weft::sim
