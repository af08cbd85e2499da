#pragma once

#include "sim/unreliable_end.h"

namespace weft::sim {

/// One end of UD traffic among several. Each copy of a datagram is delivered if its Q_Key is right
/// and the posted receive is long enough (IBTA vol 1 §9.8.3).
class UdEnd final : public UnreliableEnd {
 public:
  UdEnd(hca::Hca& hca, hca::ProtectionDomain& pd, Lid lid, std::uint64_t seed,
        std::uint32_t operations, Verdict& verdict);

  /// Sets all ends, including this one.
  void introduce(const std::vector<UdEnd*>& all) { all_ = all; }

  void connect() override;
  void check_sent(const hca::Packet& packet) override;
  void expect(const hca::Packet& packet) override;

 private:
  struct Datagram {
    std::uint64_t number{};
    std::uint32_t length{};
    bool has_immediate{};
    bool has_grh{};
    QKey qkey{};  // on the wire
    const UdEnd* to{};
    hca::GlobalRoute grh;
  };

  void post_message(std::uint64_t number) override;
  void choose_qkey(Datagram& datagram, hca::SendWr& wr);
  void check_delivery(const Expected& expected, const Receive& receive) override;
  [[nodiscard]] Gid gid() const { return Gid{kDefaultGidPrefix, Guid{lid_.value()}}; }
  [[nodiscard]] const UdEnd* sender_of(const hca::Packet& packet) const;

  std::vector<UdEnd*> all_;
  QKey qkey_;
  Psn next_psn_;
  std::map<std::uint64_t, Datagram> datagrams_;  // by number
  std::deque<std::uint64_t> to_send_;
  std::map<std::uint32_t, std::uint64_t> sent_;  // number by PSN
};

}  // namespace weft::sim
