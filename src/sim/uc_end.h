#pragma once

#include "sim/unreliable_end.h"

namespace weft::sim {

/// One end of a UC connection. A message is delivered if all its packets arrive consecutively, and
/// is dropped as a whole otherwise (IBTA vol 1 §9.8.2.2).
class UcEnd final : public UnreliableEnd {
 public:
  UcEnd(hca::Hca& hca, hca::ProtectionDomain& pd, Lid lid, std::uint64_t seed,
        std::uint32_t operations, Verdict& verdict);

  void introduce(UcEnd& peer) { peer_ = &peer; }
  /// The network neither duplicates nor reorders, so messages must not either.
  void expect_order() { in_order_ = true; }

  void connect() override;
  void check_sent(const hca::Packet& packet) override;
  void expect(const hca::Packet& packet) override;

 private:
  struct Message {
    hca::WrOpcode opcode{};
    std::uint32_t length{};
    bool is_refused{};  // a WRITE beyond the end of the region
    [[nodiscard]] bool is_write() const {
      return opcode == hca::WrOpcode::RdmaWrite || opcode == hca::WrOpcode::RdmaWriteWithImmediate;
    }
    [[nodiscard]] bool has_immediate() const {
      return opcode == hca::WrOpcode::SendWithImmediate ||
             opcode == hca::WrOpcode::RdmaWriteWithImmediate;
    }
    [[nodiscard]] std::uint32_t packets() const;
  };
  /// A packet's position in its message.
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
  std::map<std::uint64_t, Message> messages_;  // by number
  std::deque<std::uint64_t> to_send_;          // not sent completely
  std::uint32_t parts_sent_{};                 // of the first of them
  std::map<std::uint32_t, Part> sent_;         // by PSN
  std::optional<Part> run_;                    // the packet that would continue the current message
  std::optional<std::uint64_t> written_;       // a WRITE of the peer that must be placed now
  std::optional<std::uint64_t> newest_delivery_;  // of the peer's messages
};

}  // namespace weft::sim
