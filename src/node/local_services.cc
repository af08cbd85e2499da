#include "node/local_services.h"

#include <cerrno>
#include <memory>
#include <utility>

namespace weft::node {
namespace {

/// The netlink of one host.
class Link final : public sa::LocalServiceLink {
 public:
  Link(NetlinkSockets& sockets, fabric::NodeIndex host) : sockets_(sockets), host_(host) {}

  [[nodiscard]] bool has_listeners() const override {
    return sockets_.has_listeners(host_, NetlinkGroup::LocalService);
  }
  bool multicast(ByteSpan datagram) override {
    return sockets_.multicast(host_, NetlinkGroup::LocalService, datagram) == 0;
  }

 private:
  NetlinkSockets& sockets_;
  fabric::NodeIndex host_;
};

}  // namespace

LocalServices::LocalServices(NetlinkSockets& sockets, HostServicesTable& hosts,
                             std::function<Instant()> now)
    : sockets_(sockets), hosts_(hosts), now_(std::move(now)) {
  hosts_.set_local_services(
      [&sockets](fabric::NodeIndex host) { return std::make_unique<Link>(sockets, host); });
  sockets_.serve(host_view::Client::Ls, this);
}

LocalServices::~LocalServices() { sockets_.serve(host_view::Client::Ls, nullptr); }

int LocalServices::receive(const NetlinkSender& sender, std::uint16_t /*operation*/,
                           const wire::netlink::Message& message) {
  const Instant now = now_();
  sa::LocalService* const service = hosts_.host(sender.host, now).local_service();
  return service == nullptr ? -EINVAL : service->receive(sender.is_privileged, message, now);
}

}  // namespace weft::node
