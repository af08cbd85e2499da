#pragma once

#include "sim/unreliable_end.h"

namespace weft::sim {

/// One end of a UC connection. A message arrives if its packets arrive one after the other, nothing
/// between them, and is dropped otherwise, as a whole (IBTA vol 1 §9.8.2.2).
class UcEnd final : public UnreliableEnd {
 public:
  UcEnd(hca::Hca& hca, hca::ProtectionDomain& pd, Lid lid, std::uint64_t seed,
        std::uint32_t operations, Verdict& verdict);

  void introduce(UcEnd& peer) { peer_ = &peer; }
  /// The network neither repeats nor reorders: then no message may come twice or out of order.
  void expect_order() { in_order_ = true; }

  void connect() override;
  void check_sent(const hca::Packet& packet) override;
  void expect(const hca::Packet& packet) override;

 private:
  struct Message {
    hca::WrOpcode opcode{};
    std::uint32_t length{};
    bool is_refused{};  // a WRITE that ends beyond the region
    [[nodiscard]] bool is_write() const {
      return opcode == hca::WrOpcode::RdmaWrite || opcode == hca::WrOpcode::RdmaWriteWithImmediate;
    }
    [[nodiscard]] bool has_immediate() const {
      return opcode == hca::WrOpcode::SendWithImmediate ||
             opcode == hca::WrOpcode::RdmaWriteWithImmediate;
    }
    [[nodiscard]] std::uint32_t packets() const;
  };
  /// Where a packet stands in its message.
  struct Part {
    std::uint64_t message{};
    std::uint32_t index{};
  };

  void post_message(std::uint64_t number) override;
  void check_delivery(const Expected& expected, const Receive& receive) override;
  void check_memory() override;
  [[nodiscard]] std::uint64_t remote_address(std::uint64_t number) const;
  void check_part(const hca::Packet& packet, const Part& part);
  [[nodiscard]] bool begins(const Message& message) const;
  void expect_whole(const Part& last);

  UcEnd* peer_{};
  bool in_order_{};
  Psn next_psn_;
  std::map<std::uint64_t, Message> messages_;     // by number
  std::deque<std::uint64_t> to_send_;             // what has not left, or not all of it
  std::uint32_t parts_sent_{};                    // of the first of them
  std::map<std::uint32_t, Part> sent_;            // by PSN
  std::optional<Part> run_;                       // what the next packet must be to go on
  std::optional<std::uint64_t> written_;          // a WRITE of the peer that must be in place now
  std::optional<std::uint64_t> newest_delivery_;  // of the peer's messages
};

}  // namespace weft::sim
