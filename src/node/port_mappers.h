#pragma once

// The kernel's side of the iWARP port mapper on the hosts of a fabric: each talks to the port
// mapper daemon on its host, rdma-core's iwpmd or weft-iwpm, by the netlink group of those, and
// to drivers of iWARP devices, which are programs with a netlink socket
// (wire/iwpm/driver_messages.h). What a driver has mapped is unmapped when its socket is closed,
// however its program ended (R-IWPM-17, R-IWPM-18). Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/time.h"
#include "node/netlink_sockets.h"

namespace weft::node {

class PortMappers final : public NetlinkService {
 public:
  /// Mappings of one driver; policy.
  static constexpr std::size_t kMostMappings = 4'096;

  PortMappers(NetlinkSockets& sockets, std::function<Instant()> now,
              std::function<void(std::string)> log);
  ~PortMappers() override;

  int receive(const NetlinkSender& sender, std::uint16_t operation,
              const wire::netlink::Message& message) override;
  void closed(const NetlinkSender& sender) override;

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// Addresses of a host that are mapped now.
  [[nodiscard]] std::size_t mappings(fabric::NodeIndex host) const;

 private:
  class Host;

  NetlinkSockets& sockets_;
  std::function<Instant()> now_;
  std::function<void(std::string)> log_;
  std::map<fabric::NodeIndex, std::unique_ptr<Host>> hosts_;
};

}  // namespace weft::node
