// RDMA-CM for programs (librdmacm; docs/ARCHITECTURE.md, decision 9): channels, ids and events of
// the host's RDMA-CM. Ids of a dead program are destroyed as the program would have done it.

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/daemon_impl.h"
#include "daemon/rdma_cm/translate.h"
#include "node/host_services.h"
#include "os/clock.h"
#include "os/error_numbers.h"

namespace weft::daemon {
namespace {

/// Policy: what each request of a channel costs (RequestBudget::kMessage): the daemon has some 20
/// us of work with one, so that a program may have a third of it.
constexpr std::int64_t kMessageParts = 2;

}  // namespace

/// Executes the requests of a channel, one overload for each. If a request does not return another
/// message, it is answered by RdmaCmAnswer.
class Daemon::Impl::RdmaCmRequest {
 public:
  RdmaCmRequest(Impl& daemon, Client& client, RdmaCmChannel& channel)
      : daemon_(daemon),
        client_(client),
        channel_(channel),
        rdma_(daemon.rdma_cm_of(channel.owner().host)),
        now_(os::now()) {}

  void operator()(const uabi::CreateRdmaCmId& request) {
    const auto space = port_space_of(request.port_space);
    const auto type = verbs::qp_type_of(request.qp_type);
    if (!space || !type) {
      return answer(
          fail(ErrorCode::InvalidArgument,
               "port space {:#x} with QPs of type {}: there are TCP (0x106), UDP (0x111), "
               "IPOIB (2) and IB (0x13f), with RC, UC, UD and XRC",
               request.port_space, request.qp_type));
    }
    const auto id = rdma_.create(*space, *type, channel_, request.uid);
    if (!id) {
      return refuse(id.error());
    }
    channel_.add(*id);
    return answer(id->value());
  }
  void operator()(const uabi::DestroyRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const owner = channel_of(id);
    if (owner == nullptr) {
      return refuse(unknown(id));
    }
    const RdmaCmChannel::RemovedId removed = owner->remove(id);
    for (const cm::RdmaCmEvent& event : removed.events) {
      // its id was never reported to the program
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        static_cast<void>(owner->remove(event.id));
        static_cast<void>(rdma_.destroy(event.id, now_));
      }
    }
    const auto destroyed = rdma_.destroy(id, now_);
    return destroyed ? answer(removed.reported) : refuse(destroyed.error());
  }
  void operator()(const uabi::BindRdmaCmId& request) {
    return on(request.id,
              [&](cm::RdmaCmId id) { return rdma_.bind(id, address_of(request.address), now_); });
  }
  void operator()(const uabi::ResolveRdmaCmAddress& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.resolve_address(id,
                                   {.source = address_of(request.source),
                                    .destination = address_of(request.destination),
                                    .timeout = Duration::milliseconds(request.timeout_ms),
                                    .loopback_target = channel_.owner().loopback_target},
                                   now_);
    });
  }
  void operator()(const uabi::ResolveRdmaCmRoute& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.resolve_route(id, Duration::milliseconds(request.timeout_ms), now_);
    });
  }
  void operator()(const uabi::QueryRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto info = rdma_.info(id);
    if (!info) {
      return refuse(info.error());
    }
    client_.send(state_of(*info));
  }
  void operator()(const uabi::ListenRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.listen(id, request.backlog, now_); });
  }
  void operator()(const uabi::ConnectRdmaCm& request) {
    return on(request.id,
              [&](cm::RdmaCmId id) { return rdma_.connect(id, request.parameters, now_); });
  }
  void operator()(const uabi::AcceptRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      auto accepted =
          rdma_.accept(id, request.has_parameters ? &request.parameters : nullptr, now_);
      return accepted && request.has_parameters ? rdma_.set_context(id, request.uid) : accepted;
    });
  }
  void operator()(const uabi::RejectRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.reject(id, request.reason, request.private_data.octets, now_);
    });
  }
  void operator()(const uabi::DisconnectRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.disconnect(id, now_); });
  }
  void operator()(const uabi::InitRdmaCmQp& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto state = verbs::qp_state_of(request.state);
    if (!state || *state < verbs::QpState::Init || *state > verbs::QpState::Rts) {
      return answer(
          fail(ErrorCode::InvalidArgument, "QP state {} is not INIT, RTR or RTS", request.state));
    }
    const auto modification = rdma_.qp_attributes(id, *state);
    if (!modification) {
      return refuse(modification.error());
    }
    client_.send(uabi::RdmaCmQpAttributes{*modification});
  }
  void operator()(const uabi::SetRdmaCmOption& request) {
    return on(request.id,
              [&](cm::RdmaCmId id) { return rdma_.set_option(id, request.option, request.value); });
  }
  void operator()(const uabi::SetRdmaCmPaths& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.set_paths(id, request.paths); });
  }
  void operator()(const uabi::NotifyRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.notify(id, request.event, now_); });
  }
  void operator()(const uabi::JoinRdmaCmGroup& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto group =
        rdma_.join(id, address_of(request.address), request.is_send_only, request.uid, now_);
    return group ? answer(group->value()) : refuse(group.error());
  }
  void operator()(const uabi::LeaveRdmaCmGroup& request) {
    const cm::GroupId group{request.membership};
    const auto id = rdma_.id_of(group);
    RdmaCmChannel* const owner = id ? channel_of(*id) : nullptr;
    if (owner == nullptr) {
      return refuse({ErrorCode::NotFound,
                     fmt::format("the program has no membership {}", request.membership)});
    }
    const auto left = rdma_.leave(group, now_);
    return left ? answer(owner->forget(*id, group)) : refuse(left.error());
  }
  void operator()(const uabi::MigrateRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const from = channel_of(id);
    if (from == nullptr || from->owner().number != request.from) {
      return refuse(unknown(id));
    }
    if (from != &channel_ && !channel_.has_room_for(*from)) {
      return answer(fail(ErrorCode::OutOfMemory,
                         "{} events that programs wrote may wait on a channel: fetch some first",
                         RdmaCmChannel::kMostWritten));
    }
    return answer(migrate(id, *from));
  }
  void operator()(const uabi::ResolveRdmaCmService& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.resolve_service(id, {.service_id = request.service_id, .name = request.name},
                                   now_);
    });
  }
  void operator()(const uabi::QueryRdmaCmServices& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto services = rdma_.services(id);
    if (!services) {
      return refuse(services.error());
    }
    client_.send(services_of(*services));
  }
  void operator()(const uabi::WriteRdmaCmEvent& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const owner = channel_of(id);
    if (owner == nullptr) {
      return refuse(unknown(id));
    }
    const auto event = event_of(request);
    if (!event) {
      return answer(fail(ErrorCode::InvalidArgument, "programs write no events of type {}",
                         static_cast<unsigned>(request.type)));
    }
    return owner->take(*event)
               ? answer(0)
               : answer(fail(ErrorCode::OutOfMemory,
                             "{} events that programs wrote wait on the channel already",
                             RdmaCmChannel::kMostWritten));
  }
  void operator()(const uabi::GetRdmaCmEvent& /*request*/) {
    if (const auto event = channel_.next()) {
      client_.send(event_of(*event));
    } else {
      client_.send(uabi::NoRdmaCmEvent{});
    }
  }

 private:
  [[nodiscard]] static Error unknown(cm::RdmaCmId id) {
    return {ErrorCode::NotFound,
            fmt::format("the program has no id {} on a channel of this host", id.value())};
  }
  [[nodiscard]] RdmaCmChannel* channel_of(cm::RdmaCmId id) {
    return daemon_.rdma_cm_channel_of(id, channel_);
  }
  void refuse(const Error& error) {
    client_.send(
        uabi::RdmaCmAnswer{.error = static_cast<std::uint32_t>(os::error_number_of(error.code)),
                           .value = 0,
                           .reason = error.reason});
  }
  void answer(std::uint32_t value) {
    client_.send(uabi::RdmaCmAnswer{.error = 0, .value = value, .reason = {}});
  }
  void answer(const Result<void>& result) { return result ? answer(0) : refuse(result.error()); }
  template <class Call>
  void on(std::uint32_t number, Call call) {
    const cm::RdmaCmId id{number};
    return channel_of(id) != nullptr ? answer(call(id)) : refuse(unknown(id));
  }
  /// Moves an id and, for a listener, its queued connection requests.
  [[nodiscard]] std::uint32_t migrate(cm::RdmaCmId id, RdmaCmChannel& from) {
    const RdmaCmChannel::RemovedId removed = from.remove(id);
    channel_.add(id, removed.reported);
    static_cast<void>(rdma_.set_sink(id, channel_));
    for (const cm::RdmaCmEvent& event : removed.events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        channel_.add(event.id, from.remove(event.id).reported);
        static_cast<void>(rdma_.set_sink(event.id, channel_));
      }
    }
    channel_.append(removed.events);
    return removed.reported;
  }

  Impl& daemon_;
  Client& client_;
  RdmaCmChannel& channel_;
  cm::RdmaCm& rdma_;
  Instant now_;
};

/// The same for a channel whose host has left the fabric, and its RDMA-CM with it: what it was told
/// at its end can be fetched, and its ids be destroyed, as programs do when their device is
/// removed.
class Daemon::Impl::OrphanedRdmaCmRequest {
 public:
  OrphanedRdmaCmRequest(Impl& daemon, Client& client, RdmaCmChannel& channel)
      : daemon_(daemon), client_(client), channel_(channel) {}

  template <class Message>
  void operator()(const Message& /*request*/) {
    answer(os::error_number_of(ErrorCode::NoSuchDevice), 0);
  }
  void operator()(const uabi::DestroyRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const owner = daemon_.rdma_cm_channel_of(id, channel_);
    if (owner == nullptr) {
      return answer(os::error_number_of(ErrorCode::NotFound), 0);
    }
    const RdmaCmChannel::RemovedId removed = owner->remove(id);
    for (const cm::RdmaCmEvent& event : removed.events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        static_cast<void>(owner->remove(event.id));
      }
    }
    answer(0, removed.reported);
  }
  void operator()(const uabi::GetRdmaCmEvent& /*request*/) {
    if (const auto event = channel_.next()) {
      client_.send(event_of(*event));
    } else {
      client_.send(uabi::NoRdmaCmEvent{});
    }
  }

 private:
  void answer(int error, std::uint32_t value) {
    client_.send(uabi::RdmaCmAnswer{
        .error = static_cast<std::uint32_t>(error),
        .value = value,
        .reason = error == 0 ? "" : "the host was removed from the fabric: it has no device"});
  }

  Impl& daemon_;
  Client& client_;
  RdmaCmChannel& channel_;
};

/// The channel of an id, which may be any of the process and host that `asking` is of; null: none.
RdmaCmChannel* Daemon::Impl::rdma_cm_channel_of(cm::RdmaCmId id, RdmaCmChannel& asking) {
  if (asking.has(id)) {
    return &asking;
  }
  for (const auto& [client, channel] : rdma_cm_channels_) {
    if (channel->owner().pid == asking.owner().pid &&
        channel->owner().host == asking.owner().host && channel->has(id)) {
      return channel.get();
    }
  }
  return nullptr;
}

cm::RdmaCm& Daemon::Impl::rdma_cm_of(fabric::NodeIndex host) {
  return fabric_->hosts().host(host, os::now()).rdma_cm();
}

/// A request of a client that has a channel.
template <class Message>
void Daemon::Impl::on_rdma_cm(Client& client, const Message& request) {
  RdmaCmChannel& channel = *rdma_cm_channels_.at(&client);
  const fabric::NodeIndex host = channel.owner().host;
  if (!fabric_->hosts().has(host)) {
    OrphanedRdmaCmRequest{*this, client, channel}(request);
    return;
  }
  RdmaCmRequest{*this, client, channel}(request);
  fabric_->hosts().wake(host);
  run_management();
}
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::CreateRdmaCmId&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::DestroyRdmaCmId&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::BindRdmaCmId&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::ResolveRdmaCmAddress&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::ResolveRdmaCmRoute&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::QueryRdmaCmId&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::ListenRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::ConnectRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::AcceptRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::RejectRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::DisconnectRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::InitRdmaCmQp&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::SetRdmaCmOption&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::SetRdmaCmPaths&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::NotifyRdmaCm&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::JoinRdmaCmGroup&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::LeaveRdmaCmGroup&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::MigrateRdmaCmId&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::ResolveRdmaCmService&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::QueryRdmaCmServices&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::WriteRdmaCmEvent&);
template void Daemon::Impl::on_rdma_cm(Client&, const uabi::GetRdmaCmEvent&);

void Daemon::Impl::open_rdma_cm(Client& client, const uabi::OpenRdmaCm& request) {
  const auto node = umad_node(request.version, request.host);
  if (!node || view().node(*node).kind != fabric::NodeKind::Host) {
    return client.refuse(
        node ? fmt::format("{} is a switch; programs connect on hosts", request.host)
             : node.error().reason);
  }
  std::optional<IpAddress> loopback;
  if (!request.loopback.empty()) {
    loopback = fabric_->main_address_of(request.loopback);
    if (!loopback) {
      return client.refuse(fmt::format("WEFT_LOOPBACK: fabric {} has no host {}", options_.fabric,
                                       request.loopback));
    }
  }
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return client.refuse(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  os::UniqueFd ours{ends[0]};
  auto theirs = std::make_shared<const os::UniqueFd>(ends[1]);
  static_cast<void>(rdma_cm_of(*node));  // made now
  const std::uint32_t number = ++last_rdma_cm_channel_;
  rdma_cm_channels_[&client] = std::make_unique<RdmaCmChannel>(
      RdmaCmChannel::Owner{
          .number = number, .pid = client.pid(), .host = *node, .loopback_target = loopback},
      std::move(ours), theirs);
  client.set_message_parts(kMessageParts);
  client.send(uabi::RdmaCmOpened{.channel = number}, {std::move(theirs)});
}

/// Destroys the ids of a channel. Connections are ended by DREQ, as a kernel does for a process
/// that dies (docs/ARCHITECTURE.md, decision 9).
void Daemon::Impl::close_rdma_cm(Client& client) {
  const auto found = rdma_cm_channels_.find(&client);
  if (found == rdma_cm_channels_.end()) {
    return;
  }
  const fabric::NodeIndex host = found->second->owner().host;
  if (fabric_->hosts().has(host)) {
    cm::RdmaCm& rdma = rdma_cm_of(host);
    for (const cm::RdmaCmId id : found->second->ids()) {
      static_cast<void>(rdma.destroy(id, os::now()));
    }
    fabric_->hosts().wake(host);
  }
  rdma_cm_channels_.erase(found);
  run_management();
}

void Daemon::Impl::communication_established(Client& client,
                                             const uabi::CommunicationEstablished& message) {
  const fabric::NodeIndex host = client.process->host;
  if (fabric_->hosts().has(host)) {
    rdma_cm_of(host).communication_established(message.qpn, os::now());
    fabric_->hosts().wake(host);
    run_management();
  }
}

/// Status of all hosts that have used connection services.
std::vector<ManagerStatus> Daemon::Impl::manager_statuses() {
  std::vector<ManagerStatus> statuses;
  for (std::uint32_t i = 0; i < view().nodes().size(); ++i) {
    const fabric::NodeIndex node{i};
    if (fabric_->hosts().has(node)) {
      node::HostServices& host = fabric_->hosts().host(node, os::now());
      statuses.push_back({.host = node,
                          .rdma_cm_ids = host.rdma_cm().size(),
                          .connection_ids = host.connections().ids().size()});
    }
  }
  return statuses;
}

std::vector<ConnectionStatus> Daemon::Impl::connection_statuses() {
  std::vector<ConnectionStatus> statuses;
  for (const auto& [client, channel] : rdma_cm_channels_) {
    const fabric::NodeIndex host = channel->owner().host;
    for (const cm::RdmaCmId id :
         fabric_->hosts().has(host) ? channel->ids() : std::vector<cm::RdmaCmId>{}) {
      if (const auto info = rdma_cm_of(host).info(id)) {
        statuses.push_back({.host = host, .pid = channel->owner().pid, .id = *info});
      }
    }
  }
  return statuses;
}

}  // namespace weft::daemon
