#pragma once

// RDMA_NL_LS on the hosts of a fabric: the kernel's side of each asks the resolvers on it, which
// are programs with a netlink socket in the group of local services, before it asks SA (R-NL-1).
// Pure, not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/time.h"
#include "node/host_services.h"
#include "node/netlink_sockets.h"
#include "sa/published_paths.h"

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

  /// The kernel's side of the host looks there before it asks; none: no more. The memory must
  /// outlive that.
  void publish(fabric::NodeIndex host, std::optional<sa::PublishedPaths> paths);

 private:
  NetlinkSockets& sockets_;
  HostServicesTable& hosts_;
  std::function<Instant()> now_;
  using Published = std::map<fabric::NodeIndex, sa::PublishedPaths>;
  std::shared_ptr<Published> published_{std::make_shared<Published>()};  // with the hosts' links
};

}  // namespace weft::node
