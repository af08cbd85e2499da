#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cm/connection_manager.h"
#include "hca/hca.h"
#include "mad/management_interface.h"
#include "sim/cm_end.h"

namespace weft::sim {

/// A program that has its host's HCA open. Not thread-safe.
class CmProgram final : public hca::HcaEvents {
 public:
  static constexpr std::uint32_t kMaxQps = 10;  ///< few, so that QPNs are reused

  CmProgram(Lid lid, std::uint32_t slot, std::uint64_t seed);

  void completion_event(hca::CompletionQueue& /*cq*/) override {}
  void async_event(const hca::AsyncEvent& event) override;
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view /*reason*/) override {}

  [[nodiscard]] hca::Hca& hca() { return hca_; }
  [[nodiscard]] hca::ProtectionDomain& pd() { return *pd_; }
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  /// QPs that received a packet before they were connected, since the last call.
  [[nodiscard]] std::vector<Qpn> take_established();
  /// QPs that migrated to their alternate paths, since the last call.
  [[nodiscard]] std::vector<Qpn> take_migrated();

 private:
  std::uint32_t slot_;
  hca::Hca hca_;
  hca::ProtectionDomain* pd_{};
  std::vector<Qpn> established_;
  std::vector<Qpn> migrated_;
};

/// A simulated host that may lose its program, or its whole kernel side with all connection state.
/// Its port has two LIDs (LMC 1), so that there are two paths between hosts. It listens while its
/// program lives. Not thread-safe.
class CmHost final : public cm::CmObserver {
 public:
  static constexpr std::uint64_t kDirectService = 0x1000;
  static constexpr std::uint64_t kCmrcService = 0x2000;
  static constexpr std::uint64_t kPeerService = 0x3000;  ///< plus the connection's token
  static constexpr std::uint64_t kLookupService = 0x4000;
  static constexpr std::uint64_t kAbsentService = 0x5000;  ///< no listener

  /// Handles an incoming request: creates an end that takes over the id, or declines.
  using Server = std::function<cm::Handled(CmHost&, cm::CmId, const cm::CmEvent&, Instant)>;

  CmHost(std::uint32_t number, std::uint64_t seed, Server server);
  ~CmHost() override;

  void boot();
  void start_program();
  /// Ends the program; its ends send only what the protocol requires.
  void end_program(Instant now);
  void crash(Instant now);

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Lid lid() const { return Lid{number_ * 2}; }
  /// The host that owns the LID.
  [[nodiscard]] static std::uint32_t number_of(Lid lid) { return lid.value() / 2; }
  [[nodiscard]] Gid gid() const { return {kDefaultGidPrefix, Guid{number_}}; }
  [[nodiscard]] HostLife life() const { return {.host = number_, .life = life_}; }
  [[nodiscard]] bool is_up() const { return manager_ != nullptr; }
  [[nodiscard]] CmProgram* program() { return program_.get(); }
  [[nodiscard]] cm::ConnectionManager& manager() { return *manager_; }
  [[nodiscard]] mad::ManagementInterface& gsi() { return *gsi_; }
  [[nodiscard]] std::vector<std::unique_ptr<CmEnd>>& ends() { return ends_; }

  [[nodiscard]] Instant deadline() const;
  /// Runs timers, ends and QPs that are due.
  void step(Instant now);
  /// Describes state that should have been released; empty if there is none.
  [[nodiscard]] std::string leftover();

  [[nodiscard]] cm::Handled handle(cm::CmId id, const cm::CmEvent& event, Instant now) override;

 private:
  void listen();
  void notify_ends(Instant now);

  std::uint32_t number_;
  std::uint64_t seed_;
  Server server_;
  std::uint32_t life_{};
  std::uint32_t slot_{};
  std::unique_ptr<mad::ManagementInterface> gsi_;
  std::unique_ptr<cm::ConnectionManager> manager_;
  std::unique_ptr<CmProgram> program_;
  std::vector<cm::CmId> listeners_;
  std::vector<std::unique_ptr<CmEnd>> ends_;  // declared last, because ends use the other members
};

}  // namespace weft::sim
