#pragma once

#include "base/result.h"
#include "core/client.h"
#include "core/mad/mad_service.h"
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

  // --- Client
  Result<void> add(Device& device) override;
  void remove(Device& device, void* data) override;

 private:
  class DevicePorts;

  MadService& mads_;
  sa::SaClientLimits limits_;
};

}  // namespace weft::core
