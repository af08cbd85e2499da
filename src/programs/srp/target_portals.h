#pragma once

// Where the targets of a program listen, for all devices of the host that they serve: portals by
// RDMA-CM, and a service ID for logins without RDMA-CM's header (R-SRPT-2).

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/environment.h"
#include "core/work.h"
#include "programs/srp/target_device.h"

namespace weft::programs::srp {

/// The loop's thread, but for the driver's own threads.
class TargetPortals final : private core::RdmaCmHandler {
 public:
  using Take = std::function<void(LoginArrival)>;

  /// `portals` as HOST:PORT; port 0 is any, and the one that it was later on.
  TargetPortals(core::Environment& environment, core::RdmaCm& cm, std::vector<std::string> portals,
                Take take);
  /// Whoever waits is rejected.
  ~TargetPortals();
  TargetPortals(const TargetPortals&) = delete;
  TargetPortals& operator=(const TargetPortals&) = delete;

  /// Wherever it does not yet, or not any more: a portal goes with the device that has its address.
  Result<void> listen();
  [[nodiscard]] bool is_complete() const;

  /// As they were configured, with the ports that they have.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  /// That device management tells.
  [[nodiscard]] std::uint64_t service_id() const { return service_id_; }

 private:
  using Id = std::unique_ptr<core::RdmaCmId>;

  [[nodiscard]] Result<Id> listen(std::string& address);
  void listen_natively();
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void take_all();
  void forget(const core::RdmaCmId* lost);

  core::Environment& environment_;
  core::RdmaCm& cm_;
  const Take take_;
  std::vector<std::string> addresses_;
  std::vector<Id> listeners_;  // by address; null: it does not listen there
  Id native_;
  std::uint64_t service_id_{};
  std::mutex mutex_;  // of what follows, which comes where RDMA-CM calls its handlers
  std::deque<LoginArrival> arrivals_;
  std::vector<const core::RdmaCmId*> lost_;  // listeners whose device has gone
  core::Work work_;
};

}  // namespace weft::programs::srp
