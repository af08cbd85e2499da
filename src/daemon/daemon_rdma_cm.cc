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
#include "host/clock.h"
#include "host/error_numbers.h"

namespace weft::daemon {
namespace {

/// Cost of opening a channel beyond that of a message (RequestBudget); policy.
constexpr std::int64_t kOpenCost = 32;
/// Cost of each request of a channel, in fractions of RequestBudget::kMessage. A request takes the
/// daemon about 20 us, so that a program can use at most a third of its time; policy.
constexpr std::int64_t kMessageParts = 2;

constexpr std::uint32_t kEventOfEstablished = 4;  // IBV_EVENT_COMM_EST
constexpr std::uint32_t kEventOfMigration = 8;    // IBV_EVENT_PATH_MIG

[[nodiscard]] cm::RdmaCmOption option_of(uabi::RdmaCmOption option) {
  switch (option) {
    case uabi::RdmaCmOption::TypeOfService:
      return cm::RdmaCmOption::TypeOfService;
    case uabi::RdmaCmOption::ReuseAddress:
      return cm::RdmaCmOption::ReuseAddress;
    case uabi::RdmaCmOption::AfOnly:
      return cm::RdmaCmOption::AfOnly;
    case uabi::RdmaCmOption::AckTimeout:
      break;
  }
  return cm::RdmaCmOption::AckTimeout;
}

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
        now_(host::now()) {}

  /// Returns false if the message is not a request of a channel.
  bool operator()(const uabi::CreateRdmaCmId& request) {
    const auto space = port_space_of(request.port_space);
    const auto type = qp_type_of(request.qp_type);
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
  bool operator()(const uabi::DestroyRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const owner = channel_of(id);
    if (owner == nullptr) {
      return refuse(unknown(id));
    }
    const RdmaCmChannel::Remains remains = owner->remove(id);
    for (const cm::RdmaCmEvent& event : remains.events) {
      // its id was never reported to the program
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        static_cast<void>(owner->remove(event.id));
        static_cast<void>(rdma_.destroy(event.id, now_));
      }
    }
    const auto destroyed = rdma_.destroy(id, now_);
    return destroyed ? answer(remains.told) : refuse(destroyed.error());
  }
  bool operator()(const uabi::BindRdmaCmId& request) {
    return on(request.id,
              [&](cm::RdmaCmId id) { return rdma_.bind(id, address_of(request.address), now_); });
  }
  bool operator()(const uabi::ResolveRdmaCmAddress& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.resolve_address(id,
                                   {.source = address_of(request.source),
                                    .destination = address_of(request.destination),
                                    .timeout = Duration::milliseconds(request.timeout_ms),
                                    .loopback_means = channel_.owner().loopback_means},
                                   now_);
    });
  }
  bool operator()(const uabi::ResolveRdmaCmRoute& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.resolve_route(id, Duration::milliseconds(request.timeout_ms), now_);
    });
  }
  bool operator()(const uabi::QueryRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto info = rdma_.info(id);
    if (!info) {
      return refuse(info.error());
    }
    client_.send(state_of(*info));
    return true;
  }
  bool operator()(const uabi::ListenRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.listen(id, request.backlog, now_); });
  }
  bool operator()(const uabi::ConnectRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.connect(id, parameters_of(request.parameters, request.ece), now_);
    });
  }
  bool operator()(const uabi::AcceptRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      const cm::ConnectionParameters parameters = parameters_of(request.parameters, request.ece);
      auto accepted = rdma_.accept(id, request.has_parameters ? &parameters : nullptr, now_);
      return accepted && request.has_parameters ? rdma_.set_context(id, request.uid) : accepted;
    });
  }
  bool operator()(const uabi::RejectRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.reject(id, request.reason, request.private_data.octets, now_);
    });
  }
  bool operator()(const uabi::DisconnectRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) { return rdma_.disconnect(id, now_); });
  }
  bool operator()(const uabi::InitRdmaCmQp& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    if (request.state < static_cast<std::uint32_t>(cm::QpState::Init) ||
        request.state > static_cast<std::uint32_t>(cm::QpState::Rts)) {
      return answer(
          fail(ErrorCode::InvalidArgument, "QP state {} is not INIT, RTR or RTS", request.state));
    }
    const auto transition = rdma_.qp_attributes(id, static_cast<cm::QpState>(request.state));
    if (!transition) {
      return refuse(transition.error());
    }
    client_.send(attributes_of(*transition));
    return true;
  }
  bool operator()(const uabi::SetRdmaCmOption& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      return rdma_.set_option(id, option_of(request.option), request.value);
    });
  }
  bool operator()(const uabi::SetRdmaCmPaths& request) {
    return on(request.id, [&](cm::RdmaCmId id) {
      std::vector<cm::Path> paths;
      for (const uabi::RdmaCmPath& path : request.paths) {
        paths.push_back(path_of(path));
      }
      return rdma_.set_paths(id, std::move(paths));
    });
  }
  bool operator()(const uabi::NotifyRdmaCm& request) {
    return on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      if (request.event != kEventOfEstablished && request.event != kEventOfMigration) {
        return fail(ErrorCode::InvalidArgument,
                    "event {} does not concern a connection; COMM_EST and PATH_MIG do",
                    request.event);
      }
      return rdma_.notify(id,
                          request.event == kEventOfEstablished
                              ? cm::QpEvent::CommunicationEstablished
                              : cm::QpEvent::PathMigrated,
                          now_);
    });
  }
  bool operator()(const uabi::JoinRdmaCmGroup& request) {
    const cm::RdmaCmId id{request.id};
    if (channel_of(id) == nullptr) {
      return refuse(unknown(id));
    }
    const auto group =
        rdma_.join(id, address_of(request.address), request.is_send_only, request.uid, now_);
    return group ? answer(group->value()) : refuse(group.error());
  }
  bool operator()(const uabi::LeaveRdmaCmGroup& request) {
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
  bool operator()(const uabi::MigrateRdmaCmId& request) {
    const cm::RdmaCmId id{request.id};
    RdmaCmChannel* const from = channel_of(id);
    if (from == nullptr || from->owner().number != request.from) {
      return refuse(unknown(id));
    }
    return answer(migrate(id, *from));
  }
  bool operator()(const uabi::GetRdmaCmEvent& /*request*/) {
    if (const auto event = channel_.next()) {
      client_.send(event_of(*event));
    } else {
      client_.send(uabi::NoRdmaCmEvent{});
    }
    return true;
  }
  template <class Other>
  bool operator()(const Other& /*message*/) {
    return false;
  }

 private:
  [[nodiscard]] static Error unknown(cm::RdmaCmId id) {
    return {ErrorCode::NotFound,
            fmt::format("the program has no id {} on a channel of this host", id.value())};
  }
  /// The id's channel, if it belongs to the same process.
  [[nodiscard]] RdmaCmChannel* channel_of(cm::RdmaCmId id) {
    if (channel_.has(id)) {
      return &channel_;
    }
    for (const auto& [client, channel] : daemon_.rdma_cm_channels_) {
      if (channel->owner().pid == channel_.owner().pid &&
          channel->owner().host == channel_.owner().host && channel->has(id)) {
        return channel.get();
      }
    }
    return nullptr;
  }
  bool refuse(const Error& error) {
    client_.send(
        uabi::RdmaCmAnswer{.error = static_cast<std::uint32_t>(host::error_number_of(error.code)),
                           .value = 0,
                           .reason = error.reason});
    return true;
  }
  bool answer(std::uint32_t value) {
    client_.send(uabi::RdmaCmAnswer{.error = 0, .value = value, .reason = {}});
    return true;
  }
  bool answer(const Result<void>& result) { return result ? answer(0) : refuse(result.error()); }
  template <class Call>
  bool on(std::uint32_t number, Call call) {
    const cm::RdmaCmId id{number};
    return channel_of(id) != nullptr ? answer(call(id)) : refuse(unknown(id));
  }
  /// Moves an id and, for a listener, its queued connection requests.
  [[nodiscard]] std::uint32_t migrate(cm::RdmaCmId id, RdmaCmChannel& from) {
    const RdmaCmChannel::Remains remains = from.remove(id);
    channel_.add(id, remains.told);
    static_cast<void>(rdma_.set_sink(id, channel_));
    for (const cm::RdmaCmEvent& event : remains.events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        channel_.add(event.id, from.remove(event.id).told);
        static_cast<void>(rdma_.set_sink(event.id, channel_));
      }
    }
    channel_.append(remains.events);
    return remains.told;
  }

  Impl& daemon_;
  Client& client_;
  RdmaCmChannel& channel_;
  cm::RdmaCm& rdma_;
  Instant now_;
};

cm::RdmaCm& Daemon::Impl::rdma_cm_of(fabric::NodeIndex host) {
  return fabric_->hosts().host(host, host::now()).rdma_cm();
}

/// Returns true if the message belongs to RDMA-CM.
bool Daemon::Impl::handle_rdma_cm(Client& client, const uabi::Message& message) {
  const auto found = rdma_cm_channels_.find(&client);
  if (const auto* const open = std::get_if<uabi::OpenRdmaCm>(&message)) {
    if (found == rdma_cm_channels_.end()) {
      open_rdma_cm(client, *open);
    }
    return found == rdma_cm_channels_.end();
  }
  if (found == rdma_cm_channels_.end()) {
    return false;
  }
  if (!fabric_->hosts().has(found->second->owner().host)) {
    client.refuse("the host was removed from the fabric");
    return true;
  }
  RdmaCmRequest request{*this, client, *found->second};
  if (!std::visit(request, message)) {
    return false;
  }
  fabric_->hosts().wake(found->second->owner().host);
  run_management();
  return true;
}

void Daemon::Impl::open_rdma_cm(Client& client, const uabi::OpenRdmaCm& request) {
  client.spend(kOpenCost);
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
  host::UniqueFd ours{ends[0]};
  auto theirs = std::make_shared<const host::UniqueFd>(ends[1]);
  static_cast<void>(rdma_cm_of(*node));  // created now, so that it can listen
  const std::uint32_t number = ++last_rdma_cm_channel_;
  rdma_cm_channels_[&client] = std::make_unique<RdmaCmChannel>(
      RdmaCmChannel::Owner{
          .number = number, .pid = client.pid(), .host = *node, .loopback_means = loopback},
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
      static_cast<void>(rdma.destroy(id, host::now()));
    }
    fabric_->hosts().wake(host);
  }
  rdma_cm_channels_.erase(found);
  run_management();
}

void Daemon::Impl::communication_established(const Client& client, Qpn qpn) {
  const fabric::NodeIndex host = client.process->host;
  if (fabric_->hosts().has(host)) {
    rdma_cm_of(host).communication_established(qpn, host::now());
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
      node::HostServices& host = fabric_->hosts().host(node, host::now());
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
