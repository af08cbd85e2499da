#pragma once

#include <memory>

#include "base/process_slot.h"
#include "hca/hca.h"
#include "node/fabric.h"

namespace weft::sim {

/// LID of an HCA's second port, which is attached to a network of its own.
[[nodiscard]] constexpr Lid second_lid(Lid first) { return Lid{first.value() + 0x1000}; }

/// A simulated process with one HCA open; it may die. Not thread-safe.
class Process final : public hca::HcaEvents {
 public:
  Process(node::ProcessId id, Lid lid, std::uint64_t seed)
      : id_(id), lid_(lid), hca_(configuration(id, lid, seed), *this) {
    hca::PortAttributes port;
    port.state = hca::PortState::Active;
    port.pkeys = {kDefaultPKey};
    for (const Lid each : {lid, second_lid(lid)}) {
      port.lid = each;
      port.gids = {
          Gid{kDefaultGidPrefix, Guid{each.value()}}
      };
      hca_.set_port(port_of(each), port);
    }
    pd_ = *hca_.allocate_pd();
  }

  void completion_event(hca::CompletionQueue& /*cq*/) override {}
  void async_event(const hca::AsyncEvent& /*event*/) override {}
  [[nodiscard]] bool wants_explanations() const override { return false; }
  void explain(std::string_view /*reason*/) override {}

  [[nodiscard]] node::ProcessId id() const { return id_; }
  [[nodiscard]] Lid lid() const { return lid_; }
  [[nodiscard]] hca::Hca& hca() { return hca_; }
  [[nodiscard]] hca::ProtectionDomain& pd() { return *pd_; }
  [[nodiscard]] bool is_alive() const { return alive_; }
  void die() { alive_ = false; }

  /// True if a packet with these addresses is for this process.
  [[nodiscard]] bool has(Lid dlid, Qpn qpn) const {
    return alive_ && (lid_ == dlid || second_lid(lid_) == dlid) && slot_of(qpn) == id_.slot;
  }
  [[nodiscard]] PortNumber port_of(Lid own) const {
    return PortNumber{lid_ == own ? std::uint8_t{1} : std::uint8_t{2}};
  }

 private:
  static hca::HcaConfiguration configuration(node::ProcessId id, Lid lid, std::uint64_t seed) {
    hca::HcaConfiguration configuration;
    configuration.seed = seed ^ lid.value() ^ std::uint64_t{id.slot} << 32;
    configuration.limits.max_qp = 16;
    configuration.limits.max_mr = 16;
    configuration.limits.max_qp_rd_atomic = 8;
    configuration.port_count = 2;
    configuration.first_qpn = first_qpn_of(id.slot);
    return configuration;
  }

  node::ProcessId id_;
  Lid lid_;
  hca::Hca hca_;
  hca::ProtectionDomain* pd_{};
  bool alive_{true};
};

}  // namespace weft::sim
