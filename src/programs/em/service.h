#pragma once

// The Ethernet Manager of a fabric, on one host, until it is told to end. Traffic of virtual
// switches needs no manager: one that was killed is followed by another, which finds what is there.
// One thread, which sleeps while nothing happens.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"
#include "programs/em/switches_file.h"
#include "programs/vnic/opa_port.h"
#include "programs/vnic/poll_set.h"
#include "ulp/opa_vnic/manager/ethernet_manager.h"

namespace weft::programs::em {

/// Of its control socket, lock and log.
inline constexpr std::string_view kServiceName = "em";

class Service {
 public:
  /// Agents are told to send traps by that service level. Blocks SIGTERM and SIGINT, which end
  /// run().
  [[nodiscard]] static Result<std::unique_ptr<Service>> start(SwitchesFile file,
                                                              std::uint8_t trap_sl);

  /// Calls `on_up` when there is a group for each virtual switch. Ends in order by a signal; or
  /// with the reason. Virtual ports stay as they are.
  [[nodiscard]] Result<void> run(const std::function<void()>& on_up);

 private:
  Service(SwitchesFile file, std::uint8_t trap_sl, Control control)
      : file_(std::move(file)), trap_sl_(trap_sl), control_(std::move(control)) {}
  [[nodiscard]] Result<bool> work(Instant now);
  void follow_port(Instant now);
  void follow_config(Instant now);
  void follow_announced(Instant now);
  [[nodiscard]] std::string answer(std::string_view line);

  SwitchesFile file_;
  std::uint8_t trap_sl_;
  Control control_;
  std::unique_ptr<vnic::OpaPort> port_;
  std::unique_ptr<opa_vnic::EthernetManager> manager_;
  opa_vnic::ManagerConfig config_;           // as the manager has it
  std::map<Lid, vnic::Announcement> known_;  // as the manager has them
  Lid lid_{};                                // which the manager has as its own
  os::UniqueFd signals_;
  vnic::PollSet waits_;
  bool has_changed_{true};
  bool has_told_{};
  Instant next_look_{};
};

}  // namespace weft::programs::em
