// RDMA netlink: what the kernel of a host answers its programs. Devices and ports are the fabric's
// own; what programs hold they are asked, when somebody wants to see it.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/daemon_impl.h"
#include "daemon/netlink/program_views.h"
#include "host_view/rdma_netlink.h"
#include "node/host_services.h"
#include "node/host_view.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

/// Messages of the port mapper and of resolvers, for the kernel's side that speaks to them.
class ServicesOf final : public host_view::ServiceSink {
 public:
  ServicesOf(const node::NetlinkSockets& sockets, const node::NetlinkSender& sender)
      : sockets_(sockets), sender_(sender) {}

  int take(host_view::Client client, std::uint16_t operation,
           const wire::netlink::Message& message) override {
    node::NetlinkService* const service = sockets_.service(client);
    return service == nullptr ? -EINVAL : service->receive(sender_, operation, message);
  }

 private:
  const node::NetlinkSockets& sockets_;
  const node::NetlinkSender& sender_;
};

/// Those of one process on one device; made if there are none.
[[nodiscard]] host_view::ProgramView& program_of(host_view::DeviceView& device, std::uint32_t pid) {
  const auto found = std::ranges::find(device.programs, pid, &host_view::ProgramView::pid);
  return found != device.programs.end()
             ? *found
             : device.programs.emplace_back(host_view::ProgramView{.pid = pid});
}

}  // namespace

void Daemon::Impl::start_netlink(os::UniqueFd listener) {
  netlink_ = std::make_unique<NetlinkServer>(
      loop_, std::move(listener),
      NetlinkServer::Handlers{
          .requester_of = [this](pid_t pid) { return requester_of(pid); },
          .find_host = [this](std::string_view name) { return view().find_node(name); },
          .on_request =
              [this](NetlinkServer::Id socket, std::vector<std::byte> datagram,
                     const std::function<void()>& done) {
                handle_netlink(socket, std::move(datagram), done);
              },
          .on_offence =
              [this](const Requester& requester, std::string_view what) {
                const ProgramName name{
                    .pid = requester.pid, .program = requester.program, .host = {}};
                if (const auto line = offences_.add(name, what)) {
                  log_.write(*line);
                }
              },
      });
  local_services_.emplace(netlink_->sockets(), fabric_->hosts(), [] { return os::now(); });
  port_mappers_.emplace(
      netlink_->sockets(), [] { return os::now(); },
      [this](const std::string& line) { log_.write(line); });
}

/// Requests to a port mapper that does not answer end by time.
void Daemon::Impl::wait_for_port_mappers() {
  const Instant deadline = port_mappers_->deadline();
  if (deadline == Instant::never()) {
    port_mapper_timer_.cancel();
    return;
  }
  const Duration wait = std::max(deadline - os::now(), Duration{});
  port_mapper_timer_.expires_after(std::chrono::nanoseconds{wait.nanoseconds()});
  port_mapper_timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      port_mappers_->handle_timeout(os::now());
      wait_for_port_mappers();
    }
  });
}

void Daemon::Impl::handle_netlink(NetlinkServer::Id socket, std::vector<std::byte> datagram,
                                  const std::function<void()>& done) {
  const node::NetlinkSender sender = netlink_->sockets().sender(socket);
  if (!host_view::reads_resources(datagram)) {
    answer_netlink(socket, sender, datagram, {});
    run_management();  // a resolver may have answered, or be gone: hosts ask SA, or go on
    wait_for_port_mappers();
    return done();
  }
  census_.take(
      programs_with_devices(sender.host),
      [this](node::ProcessId program, const uabi::ListObjects& question) {
        client_of(program)->send(question);
      },
      [this, socket, sender, datagram = std::move(datagram),
       done](const ObjectCensus::Answers& held) {
        answer_netlink(socket, sender, datagram, held);
        done();
      });
}

/// Message by message, so that a reader that does not read stops what it asks for.
void Daemon::Impl::answer_netlink(NetlinkServer::Id socket, const node::NetlinkSender& sender,
                                  ByteSpan datagram, const ObjectCensus::Answers& held) {
  host_view::HostView view;
  // What daemons say, resolvers for one, is about no device, and there is much of it.
  if (host_view::reads_devices(datagram)) {
    const auto counters =
        host_view::reads_counters(datagram) ? node::WithCounters::Yes : node::WithCounters::No;
    view = view_host(sender.host, counters);
  }
  if (host_view::reads_resources(datagram)) {
    add_programs(view, sender.host, held);
    add_cm_ids(view, sender.host);
  }
  node::NetlinkSockets& sockets = netlink_->sockets();
  ServicesOf services{sockets, sender};
  while (const auto message = wire::netlink::take_message(datagram)) {
    const bool is_capped = sockets.is_open(socket) &&
                           sockets.has_option(socket, node::NetlinkOption::CapAcknowledgements);
    const host_view::Asker asker{.port = sender.port, .wants_capped_errors = is_capped};
    if (!sockets.answer(socket, host_view::answer(message->whole, view, asker, &services))) {
      return;
    }
  }
}

std::vector<node::ProcessId> Daemon::Impl::programs_with_devices(fabric::NodeIndex host) const {
  std::vector<node::ProcessId> programs;
  for (const auto& [process, client] : programs_) {
    if (process.host == host && !shared_devices_.of(process).empty()) {
      programs.push_back(process);
    }
  }
  return programs;
}

/// A program's objects are of its first context on their device: which one made them, only its
/// library knows.
void Daemon::Impl::add_programs(host_view::HostView& view, fabric::NodeIndex host,
                                const ObjectCensus::Answers& held) {
  for (const node::ProcessId process : programs_with_devices(host)) {
    const auto pid = static_cast<std::uint32_t>(client_of(process)->pid());
    std::vector<std::optional<host_view::ProgramView>> first(view.devices.size());
    std::vector<std::pair<std::uint32_t, host_view::ProgramView>> others;
    for (const std::uint32_t number : shared_devices_.of(process)) {
      const node::SharedDevices::Device& device = *shared_devices_.find(number);
      if (device.owner != process || device.hca >= first.size()) {
        continue;
      }
      host_view::ProgramView program{.pid = pid, .context = number};
      if (!first[device.hca]) {
        first[device.hca] = std::move(program);
      } else {
        others.emplace_back(device.hca, std::move(program));
      }
    }
    if (const auto said = held.find(process); said != held.end()) {
      for (const uabi::ObjectsHeld& part : said->second) {
        if (part.hca < first.size() && first[part.hca]) {
          add_held(part, process.slot, *first[part.hca]);
        }
      }
    }
    for (std::size_t hca = 0; hca < first.size(); ++hca) {
      if (first[hca]) {
        view.devices[hca].programs.push_back(std::move(*first[hca]));
      }
    }
    for (auto& [hca, program] : others) {
      view.devices[hca].programs.push_back(std::move(program));
    }
  }
}

/// A listener on all addresses is one on each device, as Linux has it.
void Daemon::Impl::add_cm_ids(host_view::HostView& view, fabric::NodeIndex host) {
  if (!fabric_->hosts().has(host)) {
    return;
  }
  for (const auto& [client, channel] : rdma_cm_channels_) {
    if (channel->owner().host != host) {
      continue;
    }
    for (const cm::RdmaCmId id : channel->ids()) {
      const auto info = rdma_cm_of(host).info(id);
      if (!info) {
        continue;
      }
      for (host_view::DeviceView& device : view.devices) {
        const bool is_everywhere = info->device.empty() && info->state == cm::RdmaCmState::Listen;
        if (is_everywhere || info->device == device.name) {
          program_of(device, static_cast<std::uint32_t>(channel->owner().pid))
              .cm_ids.push_back(view_of(id.value(), *info));
        }
      }
    }
  }
}

void Daemon::Impl::take_held_objects(Client& client, const uabi::ObjectsHeld& part) {
  if (!census_.take_answer(*client.process, part)) {
    record_offence(client, "answers to questions that nobody asked");
  }
}

}  // namespace weft::daemon
