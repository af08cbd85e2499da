#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hca/events.h"
#include "host/daemon_connection.h"
#include "host/deferred_events.h"
#include "host/fabric_map.h"
#include "host/foreign/shared_targets.h"
#include "host/held_events.h"
#include "host/key_violations.h"
#include "host/placement/placements.h"
#include "host/process.h"

namespace weft::host {

/// Passes one engine's events on: to the program with the HCA's number, to the daemon where it must
/// know, and to the parts of the process that act on them. Called with locks of verbs objects held.
class HcaEventRelay final : public hca::HcaEvents {
 public:
  struct Parts {
    ProcessEvents& program;
    DaemonConnection& daemon;
    KeyViolations& key_violations;
    HeldEvents& held_events;
    const FabricMap& map;
    Placements& placements;
    SharedTargets& shared_targets;
  };

  HcaEventRelay(std::uint32_t hca, const Parts& parts) : hca_(hca), parts_(parts) {}

  void completion_event(hca::CompletionQueue& cq) override {
    DeferredEvents::tell(parts_.program, hca_, cq);
  }
  void completion_event_held(hca::CompletionQueue& cq, Duration period) override;
  void async_event(const hca::AsyncEvent& event) override;
  void bad_key(const hca::BadKey& bad) override;
  void xrc_proxy_requested(const hca::XrcProxyRequest& request) override;
  void xrc_proxies_released(std::uint32_t domain, Qpn target) override;
  [[nodiscard]] std::optional<std::uint64_t> placement_epoch(hca::Qp& qp) override;
  void grant_placement(hca::Qp& qp, std::uint64_t epoch,
                       const hca::PlaceableMemory& memory) override;
  void withdraw_placement() override { parts_.placements.withdraw(); }
  void forget_placeable(const void* region) override { parts_.placements.forget(region); }
  [[nodiscard]] bool explains_errors() const override { return parts_.program.explains_errors(); }
  void explain(std::string_view reason) override { parts_.program.explain(reason); }

 private:
  std::uint32_t hca_;
  Parts parts_;
};

}  // namespace weft::host
