#pragma once

// RDMA_NL_LS on the hosts of a fabric: the kernel's side of each asks the resolvers on it, which
// are programs with a netlink socket in the group of local services, before it asks SA (R-NL-1).
// Pure, not thread-safe.

#include <cstdint>
#include <functional>

#include "base/time.h"
#include "node/host_services.h"
#include "node/netlink_sockets.h"

namespace weft::node {

class LocalServices final : public NetlinkService {
 public:
  /// Everything must outlive the hosts' services, made already or later. `now` says the time at
  /// which a message comes.
  LocalServices(NetlinkSockets& sockets, HostServicesTable& hosts, std::function<Instant()> now);
  ~LocalServices() override;

  /// What resolvers say, who must be privileged on their host.
  int receive(const NetlinkSender& sender, std::uint16_t operation,
              const wire::netlink::Message& message) override;

 private:
  NetlinkSockets& sockets_;
  HostServicesTable& hosts_;
  std::function<Instant()> now_;
};

}  // namespace weft::node
