#include "programs/iser/iser_portals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "programs/iser/live_cm_id.h"

namespace weft::programs::iser {

using weft::iser::TargetDatamover;

namespace {

constexpr int kBacklog = 128;                              // policy
constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds

}  // namespace

IserPortals::IserPortals(asio::io_context& loop, weft::iscsi::TargetServer& server,
                         std::string device)
    : loop_(loop), server_(server), device_(std::move(device)) {}

IserPortals::~IserPortals() {
  if (host_ == nullptr) {
    return;
  }
  close();
  accept_work_->cancel_and_wait();
  requests_.clear();  // rejected
  for (const auto& [number, connection] : connections_) {
    connection->terminate(weft::iscsi::Datamover::Ending::AtOnce, "the target ends");
  }
  core::Environment& environment = host_->environment();
  const auto is_drained = [this] {
    return std::ranges::all_of(connections_,
                               [](const auto& one) { return one.second->awaits_commands(); });
  };
  const bool drained = environment.wait_until(is_drained, environment.now() + kLongestEnding);
  WEFT_ASSERT(drained, "every request of a QP in error completes");
  // As long as disks take, for whose threads the program waits in any case.
  environment.wait_until([this] { return connections_.empty(); }, Instant::never());
  free_work_->flush();
}

Result<void> IserPortals::open_host() {
  if (host_ != nullptr) {
    return {};
  }
  auto opened = rdma::Host::open(loop_, device_, "weft-iser");
  if (!opened) {
    return std::unexpected(opened.error());
  }
  host_ = *std::move(opened);
  const auto work = [this](auto function) {
    return std::make_unique<core::Work>(host_->environment(), core::WorkContext::UnboundWorkQueue,
                                        0, std::move(function));
  };
  accept_work_ = work([this] { accept_requests(); });
  free_work_ = work([this] { gone_.clear(); });
  return {};
}

Result<std::string> IserPortals::listen(const std::string& address) {
  const auto parsed = iscsi::parse_host_and_port(address);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const auto ip = parse_ip_address(parsed->host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  if (auto opened = open_host(); !opened) {
    return std::unexpected(opened.error());
  }
  auto id = host_->cm().create_id(*this);
  if (!id) {
    return std::unexpected(id.error());
  }
  if (const auto bound = (*id)->bind({.address = *ip, .port = parsed->port}); !bound) {
    return fail(bound.error().code, "iser:{}: {}", address, bound.error().reason);
  }
  if (const auto listens = (*id)->listen(kBacklog); !listens) {
    return fail(listens.error().code, "iser:{}: {}", address, listens.error().reason);
  }
  const std::uint16_t port = (*id)->source_port();
  listeners_.push_back(*std::move(id));
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
}

void IserPortals::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                                  std::unique_ptr<core::RdmaCmId> request) {
  if (event.type != verbs::RdmaCmEventType::ConnectRequest) {
    return;  // of a request that waits: its accept() fails
  }
  {
    const std::lock_guard lock{mutex_};
    requests_.push_back({.id = std::move(request), .offered = event.parameters});
  }
  accept_work_->queue();
}

void IserPortals::accept_requests() {
  for (;;) {
    std::deque<Request> came;
    {
      const std::lock_guard lock{mutex_};
      came.swap(requests_);
    }
    if (came.empty()) {
      return;
    }
    for (Request& request : came) {
      accept(std::move(request));
    }
  }
}

void IserPortals::accept(Request request) {
  core::Environment& environment = host_->environment();
  if (request.id->device() != &host_->device()) {
    environment.log(core::LogLevel::Warning, "a request came by a device that is not served");
    return;
  }
  const std::uint64_t number = next_connection_++;
  auto datamover = std::make_unique<TargetDatamover>(
      environment,
      weft::iser::TargetOptions{.takes_unsolicited_data = false, .cq_lingers = rdma::kCqLingers},
      [this, number] { forget(number); });
  weft::iscsi::DatamoverClient* const client = server_.accept(*datamover, environment.now());
  if (client == nullptr) {
    environment.log(core::LogLevel::Warning, "there are too many connections");
    return;
  }
  datamover->set_client(*client);
  auto id =
      std::make_unique<LiveCmId>(environment, std::move(request.id), request.offered, *datamover);
  if (const auto accepted = datamover->accept(std::move(id), request.offered.private_data);
      !accepted) {
    environment.log(core::LogLevel::Warning, accepted.error().reason);
    client->handle_lost(accepted.error().reason, environment.now());
    return;
  }
  connections_.emplace(number, std::move(datamover));
}

void IserPortals::forget(std::uint64_t connection) {
  const auto found = connections_.find(connection);
  host_->environment().log(core::LogLevel::Debug,
                           "a connection has ended: " + found->second->reason());
  gone_.push_back(std::move(found->second));
  connections_.erase(found);
  free_work_->queue();  // it is still inside the datamover
}

}  // namespace weft::programs::iser
