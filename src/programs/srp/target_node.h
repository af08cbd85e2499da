#pragma once

// One SRP target of a program: a port with its disks.

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
  static constexpr const char* kPort = "srp";

  [[nodiscard]] static Result<std::unique_ptr<TargetNode>> create(
      asio::io_context& loop, iscsi::WorkerPool& workers, const iscsi::TargetConfiguration& target,
      Guid ioc_guid);

  [[nodiscard]] const iscsi::TargetConfiguration& configuration() const { return configuration_; }
  [[nodiscard]] const wire::SrpPortId& port_id() const { return names_.port_id; }
  [[nodiscard]] const weft::srp::PortOptions& options() const { return options_; }
  [[nodiscard]] weft::srp::Target& target() { return target_; }

  [[nodiscard]] TargetStatus status() const;

  /// Another list of who may log in: sessions that it does not allow end.
  Result<void> change(const iscsi::TargetConfiguration& target);
  /// No logins any more; `done` when the last channel is released.
  void release(std::function<void()> done);

 private:
  TargetNode() = default;
  Result<void> add_unit(asio::io_context& loop, iscsi::WorkerPool& workers,
                        const iscsi::UnitConfiguration& unit);

  iscsi::TargetConfiguration configuration_;
  TargetNames names_;
  weft::srp::PortOptions options_;
  std::vector<std::unique_ptr<scsi::BlockDevice>> devices_;
  scsi::Target scsi_{{.locks = LockPolicy::None}};
  weft::srp::Target target_{scsi_};
};

}  // namespace weft::programs::srp
