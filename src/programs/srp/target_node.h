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
  /// Takes logins by the name that it has at the device with this GUID, perhaps another one than
  /// before; its units stay the same to initiators.
  Result<void> come_to(Guid ioc_guid);
  /// No logins any more, until it comes to a device again; `done` when the last channel is
  /// released.
  void leave(std::function<void()> done);

  [[nodiscard]] const iscsi::TargetConfiguration& configuration() const { return configuration_; }
  /// Of the latest device; before there was one without a GUID.
  [[nodiscard]] const wire::SrpPortId& port_id() const { return names_.port_id; }
  /// The name of its port for log_in().
  [[nodiscard]] const std::string& port() const { return options_.name; }
  [[nodiscard]] const weft::srp::PortOptions& options() const { return options_; }
  [[nodiscard]] weft::srp::Target& target() { return target_; }

  [[nodiscard]] TargetStatus status() const;

  /// Another list of who may log in: sessions that it does not allow end.
  Result<void> change(const iscsi::TargetConfiguration& target);

 private:
  TargetNode() = default;
  Result<void> add_units();
  Result<void> add_unit(const iscsi::UnitConfiguration& unit, scsi::BlockDevice& device);
  Result<void> add_port(Guid ioc_guid);
  void change(const std::string& port, const std::vector<weft::srp::AccessName>& before);

  iscsi::TargetConfiguration configuration_;
  TargetNames names_;
  weft::srp::PortOptions options_;  // of the latest port
  std::vector<Guid> ports_;         // of devices that have come; the place gives the SCSI port
  std::size_t units_{};             // that the SCSI target has
  std::vector<std::unique_ptr<scsi::BlockDevice>> devices_;
  scsi::Target scsi_{{.locks = LockPolicy::None}};
  weft::srp::Target target_{scsi_};
};

}  // namespace weft::programs::srp
