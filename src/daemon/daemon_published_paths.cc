// Paths that resolvers show by shared memory: hosts' kernel sides look there before they ask, and
// programs may look, too.

#include <algorithm>
#include <utility>

#include "daemon/daemon_impl.h"
#include "os/capabilities.h"
#include "sa/published_paths.h"

namespace weft::daemon {

void Daemon::Impl::publish_paths(Client& client, const uabi::PublishPaths& request,
                                 os::UniqueFd file) {
  if (const auto taken = take_published_paths(client, request, std::move(file)); !taken) {
    return client.refuse(taken.error().reason);
  }
  answer(client, "");
}

/// As for netlink's group of local services, only who may administer the host's network is
/// believed.
Result<void> Daemon::Impl::take_published_paths(Client& client, const uabi::PublishPaths& request,
                                                os::UniqueFd file) {
  const auto host = namespace_host(request.version, request.host);
  if (!host) {
    return std::unexpected(host.error());
  }
  if (!os::may_administer_network(client.pid())) {
    return fail(ErrorCode::PermissionDenied,
                "{}: paths are believed of who may administer the host's network (weft exec --ns)",
                request.host);
  }
  if (publishers_.contains(&client) || publisher_on(*host) != nullptr) {
    return fail(ErrorCode::Exists, "{}: a resolver shows its paths already", request.host);
  }
  auto memory = os::map_shared(file, os::Protection::ReadWrite, sa::PublishedLayout::kBytes,
                               sa::PublishedLayout::kBytes);
  if (!memory) {
    return std::unexpected(memory.error());
  }
  if (auto closed = os::forbid_new_writers(file); !closed) {
    return closed;
  }
  sa::set_live(memory->bytes(), true);
  local_services_->publish(*host, sa::PublishedPaths{memory->bytes()});
  publishers_.emplace(&client,
                      Publisher{.host = *host,
                                .file = std::make_shared<const os::UniqueFd>(std::move(file)),
                                .memory = *std::move(memory)});
  return {};
}

const Publisher* Daemon::Impl::publisher_on(fabric::NodeIndex host) const {
  const auto found = std::ranges::find_if(
      publishers_, [host](const auto& one) { return one.second.host == host; });
  return found == publishers_.end() ? nullptr : &found->second;
}

void Daemon::Impl::ask_published_paths(Client& client, const uabi::AskPublishedPaths& request) {
  const auto host = namespace_host(request.version, request.host);
  const Publisher* const publisher = host ? publisher_on(*host) : nullptr;
  if (publisher == nullptr) {
    return client.refuse(host ? request.host + ": no resolver shows its paths"
                              : host.error().reason);
  }
  client.send(uabi::PublishedPaths{}, {publisher->file});
}

/// Programs that look there know that it is over; the kernel's side asks from now on.
void Daemon::Impl::drop_published_paths(Client& client) {
  const auto found = publishers_.find(&client);
  if (found == publishers_.end()) {
    return;
  }
  local_services_->publish(found->second.host, std::nullopt);
  sa::set_live(found->second.memory.bytes(), false);
  publishers_.erase(found);
}

}  // namespace weft::daemon
