#pragma once

// One SRP target of a program: its disks, and a port at each device that has come.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/file_device.h"
#include "programs/srp/status_report.h"
#include "programs/srp/target_names.h"
#include "scsi/target.h"
#include "ulp/srp/target.h"

namespace weft::programs::srp {

/// The loop's thread.
class TargetNode {
 public:
  /// Opens the disks. It takes no logins yet.
  [[nodiscard]] static Result<std::unique_ptr<TargetNode>> create(
      asio::io_context& loop, iscsi::WorkerPool& workers, const iscsi::TargetConfiguration& target);
  /// Takes logins by the name that it has at the device with this GUID, beside others; its units
  /// are the same to initiators at each.
  Result<void> come_to(Guid ioc_guid);
  /// No logins there any more, until it comes to that device again; `done` when the last channel
  /// there is released.
  void leave(Guid ioc_guid, std::function<void()> done);
  /// The same of all devices.
  void leave_all();

  [[nodiscard]] const iscsi::TargetConfiguration& configuration() const { return configuration_; }
  /// At that device; without a GUID as it is named before there is one.
  [[nodiscard]] wire::SrpPortId port_id(Guid ioc_guid = {}) const;
  /// The name of its port at that device, for log_in().
  [[nodiscard]] static std::string port_of(Guid ioc_guid);
  /// What its ports have in common.
  [[nodiscard]] const weft::srp::PortOptions& options() const { return options_; }
  [[nodiscard]] weft::srp::Target& target() { return target_; }

  [[nodiscard]] TargetStatus status() const;

  /// Another list of who may log in: sessions that it does not allow end.
  Result<void> change(const iscsi::TargetConfiguration& target);

 private:
  TargetNode() = default;
  Result<void> add_units(const wire::SrpPortId& named_after);
  Result<void> add_unit(const wire::SrpPortId& named_after, const iscsi::UnitConfiguration& unit,
                        scsi::BlockDevice& device);
  Result<void> add_port(Guid ioc_guid);
  void change(const std::string& port, const std::vector<weft::srp::AccessName>& before);

  iscsi::TargetConfiguration configuration_;
  TargetNames names_;
  const weft::srp::PortOptions options_{};
  std::vector<Guid> ports_;  // of devices that have come; the place gives the SCSI port
  std::size_t units_{};      // that the SCSI target has
  std::vector<std::unique_ptr<scsi::BlockDevice>> devices_;
  scsi::Target scsi_{{.locks = LockPolicy::None}};
  weft::srp::Target target_{scsi_};
};

}  // namespace weft::programs::srp
