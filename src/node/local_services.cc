#include "node/local_services.h"

#include <cerrno>
#include <memory>
#include <utility>

namespace weft::node {
namespace {

/// The netlink of one host.
class Link final : public sa::LocalServiceLink {
 public:
  using Published = std::map<fabric::NodeIndex, sa::PublishedPaths>;

  Link(NetlinkSockets& sockets, fabric::NodeIndex host, std::shared_ptr<const Published> published)
      : sockets_(sockets), host_(host), published_(std::move(published)) {}

  [[nodiscard]] bool has_listeners() const override {
    return sockets_.has_listeners(host_, NetlinkGroup::LocalService);
  }
  bool multicast(ByteSpan datagram) override {
    return sockets_.multicast(host_, NetlinkGroup::LocalService, datagram) == 0;
  }
  [[nodiscard]] std::optional<wire::PathRecord> published(const sa::PathQuery& asked,
                                                          Instant now) const override {
    const auto found = published_->find(host_);
    return found == published_->end() ? std::nullopt : found->second.find(asked, now);
  }

 private:
  NetlinkSockets& sockets_;
  fabric::NodeIndex host_;
  std::shared_ptr<const Published> published_;
};

}  // namespace

LocalServices::LocalServices(NetlinkSockets& sockets, HostServicesTable& hosts,
                             std::function<Instant()> now)
    : sockets_(sockets), hosts_(hosts), now_(std::move(now)) {
  hosts_.set_local_services([&sockets, published = published_](fabric::NodeIndex host) {
    return std::make_unique<Link>(sockets, host, published);
  });
  sockets_.serve(host_view::Client::Ls, this);
}

LocalServices::~LocalServices() { sockets_.serve(host_view::Client::Ls, nullptr); }

void LocalServices::publish(fabric::NodeIndex host, std::optional<sa::PublishedPaths> paths) {
  published_->erase(host);
  if (paths) {
    published_->emplace(host, *paths);
  }
}

int LocalServices::receive(const NetlinkSender& sender, std::uint16_t /*operation*/,
                           const wire::netlink::Message& message) {
  const Instant now = now_();
  sa::LocalService* const service = hosts_.host(sender.host, now).local_service();
  return service == nullptr ? -EINVAL : service->receive(sender.is_privileged, message, now);
}

}  // namespace weft::node
