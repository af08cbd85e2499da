#include "programs/srp/target_portals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "programs/iscsi/transport.h"
#include "programs/srp/device_management.h"

namespace weft::programs::srp {
namespace {

constexpr int kBacklog = 128;  // policy

}  // namespace

TargetPortals::TargetPortals(core::Environment& environment, core::RdmaCm& cm,
                             std::vector<std::string> portals, Take take)
    : environment_(environment),
      cm_(cm),
      take_(std::move(take)),
      addresses_(std::move(portals)),
      listeners_(addresses_.size()),
      work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { take_all(); }) {}

TargetPortals::~TargetPortals() {
  listeners_.clear();
  native_.reset();
  work_.cancel_and_wait();
}

bool TargetPortals::is_complete() const {
  return std::ranges::none_of(listeners_, [](const Id& id) { return id == nullptr; });
}

Result<void> TargetPortals::listen() {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (listeners_[i] != nullptr) {
      continue;
    }
    auto id = listen(addresses_[i]);
    if (!id) {
      return std::unexpected(id.error());
    }
    listeners_[i] = *std::move(id);
  }
  if (native_ == nullptr) {
    listen_natively();
  }
  return {};
}

Result<TargetPortals::Id> TargetPortals::listen(std::string& address) {
  const auto parsed = iscsi::parse_host_and_port(address);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const auto ip = parse_ip_address(parsed->host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  auto id = cm_.create_id(*this);
  if (!id) {
    return std::unexpected(id.error());
  }
  if (const auto bound = (*id)->bind({.address = *ip, .port = parsed->port}); !bound) {
    return fail(bound.error().code, "{}: {}", address, bound.error().reason);
  }
  if (const auto listens = (*id)->listen(kBacklog); !listens) {
    return fail(listens.error().code, "{}: {}", address, listens.error().reason);
  }
  address = fmt::format("{}:{}", address.substr(0, address.rfind(':')), (*id)->source_port());
  return id;
}

/// Logins by a service ID without RDMA-CM's header, as those of IB CM are. A device or a port
/// number without such ids leaves logins by RDMA-CM.
void TargetPortals::listen_natively() {
  const std::uint16_t port = listeners_.front()->source_port();
  const std::uint64_t service_id = core::native_service_id(port);
  service_id_ = service_id_of(port);
  const auto refused = [&](const Error& error) {
    environment_.log(core::LogLevel::Warning,
                     fmt::format("no logins by the service ID {:016x}, only by RDMA-CM: {}",
                                 service_id, error.reason));
  };
  auto id = cm_.create_native_id(*this);
  if (!id) {
    return refused(id.error());
  }
  const auto bound = (*id)->bind({.native = core::NativeAddress{.service_id = service_id}});
  if (!bound) {
    return refused(bound.error());
  }
  if (const auto listens = (*id)->listen(kBacklog); !listens) {
    return refused(listens.error());
  }
  native_ = *std::move(id);
  service_id_ = service_id;
}

void TargetPortals::handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                                    std::unique_ptr<core::RdmaCmId> request) {
  {
    const std::lock_guard lock{mutex_};
    if (event.type == verbs::RdmaCmEventType::ConnectRequest) {
      arrivals_.push_back({.id = std::move(request), .offered = event.parameters});
    } else if (event.type == verbs::RdmaCmEventType::DeviceRemoval) {
      lost_.push_back(&id);  // a request that waits, perhaps: its accept() fails
    } else {
      return;  // of a request that waits: the same
    }
  }
  work_.queue();
}

void TargetPortals::take_all() {
  for (;;) {
    std::deque<LoginArrival> arrivals;
    std::vector<const core::RdmaCmId*> lost;
    {
      const std::lock_guard lock{mutex_};
      arrivals.swap(arrivals_);
      lost.swap(lost_);
    }
    if (arrivals.empty() && lost.empty()) {
      return;
    }
    std::ranges::for_each(lost, [this](const core::RdmaCmId* id) { forget(id); });
    for (LoginArrival& arrival : arrivals) {
      take_(std::move(arrival));
    }
  }
}

void TargetPortals::forget(const core::RdmaCmId* lost) {
  for (Id& listener : listeners_) {
    if (listener.get() == lost) {
      listener.reset();
    }
  }
  if (native_.get() == lost) {
    native_.reset();
  }
}

}  // namespace weft::programs::srp
