#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "core/client.h"
#include "core/mad/mad_service.h"
#include "sa/local_service.h"
#include "sa/sa_client.h"

namespace weft::core {

class SaPort;

/// The SA clients of a host's ports, as far as they can have one. A client of the registry behind
/// the MadService and before its own users.
class SaService final : public Client {
 public:
  /// Registers itself; `mads` outlives it.
  explicit SaService(MadService& mads, const sa::SaClientLimits& limits = {});
  /// All users (core/sa/sa_user.h) have gone.
  ~SaService() override;

  [[nodiscard]] MadService& mads() const { return mads_; }

  /// NoSuchDevice: the port has no SA client, or the device is going; InvalidArgument: there is no
  /// such port (R-SA-4).
  [[nodiscard]] Result<SaPort*> port(Device& device, PortNumber number);

  /// Resolvers of the host are asked for single paths before SA is (R-SA-8), by `link`, which
  /// outlives this. Locks have one order: that of the ports, and then what `link` takes, which is
  /// called with the ports locked. Once.
  void use_local_service(sa::LocalServiceLink& link, const sa::LocalServiceOptions& options = {});
  /// What a resolver says, as sa::LocalService::receive(): 0 or a negative errno. Any thread,
  /// without anything that `link` takes.
  int receive(bool is_privileged, const wire::netlink::Message& message);
  /// Zeros: nobody is asked.
  [[nodiscard]] sa::LocalServiceCounters local_service_counters();

  // --- Client
  Result<void> add(Device& device) override;
  void remove(Device& device, void* data) override;

 private:
  class DevicePorts;

  void add_port(SaPort& port);
  void remove_port(SaPort& port);

  MadService& mads_;
  sa::SaClientLimits limits_;
  // Under the lock of the MadService, as the ports' clients, which ask and are told.
  std::optional<sa::LocalService> local_service_;
  std::vector<SaPort*> sa_ports_;
  unsigned receiving_{};  // threads that let ports go on after what came
};

}  // namespace weft::core
