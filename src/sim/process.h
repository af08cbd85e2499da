#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/process_slot.h"
#include "hca/granted_memory.h"
#include "hca/hca.h"
#include "hca/user_memory.h"
#include "node/fabric.h"

namespace weft::sim {

/// LID of an HCA's second port, which is attached to a network of its own.
[[nodiscard]] constexpr Lid second_lid(Lid first) { return Lid{first.value() + 0x1000}; }

/// Memory of a process's ends, and what of it a FLUSH has made persistent.
class DurableMemory final : public hca::UserMemory {
 public:
  /// `memory` stays where it is.
  void add(std::span<std::byte> memory) {
    areas_.push_back({
        memory, {memory.begin(), memory.end()}
    });
  }

  [[nodiscard]] bool fault_in(std::span<std::byte> /*range*/, bool /*for_writing*/) override {
    return true;
  }
  [[nodiscard]] bool persist(std::span<std::byte> range) override {
    const auto area = std::ranges::find_if(areas_, [&](const Area& each) {
      return range.data() >= each.memory.data() &&
             range.data() + range.size() <= each.memory.data() + each.memory.size();
    });
    if (area == areas_.end()) {
      return false;
    }
    std::ranges::copy(range, area->kept.begin() + (range.data() - area->memory.data()));
    return true;
  }
  /// What would be there after the power has failed.
  [[nodiscard]] std::byte kept(const std::byte* at) const {
    for (const Area& area : areas_) {
      if (at >= area.memory.data() && at < area.memory.data() + area.memory.size()) {
        return area.kept[static_cast<std::size_t>(at - area.memory.data())];
      }
    }
    return {};
  }

 private:
  struct Area {
    std::span<std::byte> memory;
    std::vector<std::byte> kept;
  };
  std::vector<Area> areas_;
};

/// A simulated process with one HCA of its host open; it may die.
class Process final : public hca::HcaEvents {
 public:
  Process(node::ProcessId id, Lid lid, std::uint64_t seed)
      : id_(id), lid_(lid), hca_(configuration(id, lid, seed, memory_), *this) {
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
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view /*reason*/) override {}
  [[nodiscard]] std::optional<std::uint64_t> placement_epoch(hca::Qp& /*qp*/) override {
    return granted_.epoch();
  }
  void grant_placement(hca::Qp& qp, std::uint64_t epoch,
                       const hca::PlaceableMemory& memory) override {
    granted_.grant(qp.number(), epoch, memory);
  }
  void withdraw_placement() override { granted_.withdraw(); }
  [[nodiscard]] const hca::GrantedMemory& granted() const { return granted_; }

  [[nodiscard]] node::ProcessId id() const { return id_; }
  [[nodiscard]] Lid lid() const { return lid_; }
  [[nodiscard]] hca::Hca& hca() { return hca_; }
  [[nodiscard]] hca::ProtectionDomain& pd() { return *pd_; }
  [[nodiscard]] DurableMemory& memory() { return memory_; }
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
  static hca::HcaConfiguration configuration(node::ProcessId id, Lid lid, std::uint64_t seed,
                                             DurableMemory& memory) {
    hca::HcaConfiguration configuration;
    configuration.user_memory = &memory;
    configuration.placement =
        seed % 2 == 0 ? hca::PlacementPolicy::Always : hca::PlacementPolicy::WhereQuicker;
    configuration.least_placed_bytes = 1'024;  // messages are short here
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
  DurableMemory memory_;
  hca::GrantedMemory granted_;
  hca::Hca hca_;
  hca::ProtectionDomain* pd_{};
  bool alive_{true};
};

}  // namespace weft::sim
