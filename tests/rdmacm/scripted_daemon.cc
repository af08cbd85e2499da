#include "scripted_daemon.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "os/packet_socket.h"
#include "os/run_directory.h"

namespace weft::testing {
namespace {

constexpr std::uint32_t kQKey = 0x0123'4567;

[[nodiscard]] bool has_wildcard(const uabi::RdmaCmAddress& address) {
  return std::ranges::all_of(address.octets, [](std::byte octet) { return octet == std::byte{}; });
}

/// The host's, of the destination's family: it is h1, and whoever speaks to it is there, too.
[[nodiscard]] uabi::RdmaCmAddress own_address(uabi::RdmaCmAddress destination) {
  constexpr std::array<std::byte, 4> kLoopback{std::byte{127}, std::byte{0}, std::byte{0},
                                               std::byte{1}};
  if (std::ranges::equal(std::span{destination.octets}.first(4), kLoopback)) {
    destination.octets[1] = std::byte{77};
  }
  return destination;
}

[[nodiscard]] uabi::RdmaCmAnswer refusal(int error, std::string reason) {
  return {.error = static_cast<std::uint32_t>(error), .value = 0, .reason = std::move(reason)};
}

[[nodiscard]] std::uint32_t mask_of(ibv_qp_state state, bool is_datagram) {
  if (state == IBV_QPS_INIT) {
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (is_datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  }
  if (state == IBV_QPS_RTR) {
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
}

}  // namespace

ScriptedDaemon::ScriptedDaemon(const std::string& run, const std::string& fabric) {
  std::filesystem::create_directories(os::fabric_directory(run, fabric));
  path_ = os::control_path(run, fabric);
  auto listener = os::listen_at(path_);
  EXPECT_TRUE(listener) << listener.error().reason;
  listener_ = std::move(*listener);
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  wake_ = os::UniqueFd{ends[0]};
  waker_ = os::UniqueFd{ends[1]};
  thread_ = std::thread{[this] { serve_programs(); }};
}

ScriptedDaemon::~ScriptedDaemon() { die(); }

void ScriptedDaemon::die() {
  waker_.reset();
  if (thread_.joinable()) {
    thread_.join();
  }
  channels_.clear();
  listener_.reset();
  std::filesystem::remove(path_);
}

std::size_t ScriptedDaemon::channels() {
  const std::lock_guard guard{lock_};
  return channels_.size();
}

std::size_t ScriptedDaemon::ids() {
  const std::lock_guard guard{lock_};
  return ids_.size();
}

std::uint32_t ScriptedDaemon::newest_id() {
  const std::lock_guard guard{lock_};
  return ids_.empty() ? 0 : ids_.rbegin()->first;
}

void ScriptedDaemon::serve_programs() {
  while (true) {
    std::vector<pollfd> polled{
        {.fd = wake_.get(),     .events = POLLIN, .revents = 0},
        {.fd = listener_.get(), .events = POLLIN, .revents = 0}
    };
    for (const auto& channel : channels_) {
      polled.push_back({.fd = channel->control.fd(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) {
      return;
    }
    const std::lock_guard guard{lock_};
    for (std::size_t i = channels_.size(); i-- > 0;) {
      if (polled[i + 2].revents != 0 && !serve(*channels_[i])) {
        std::erase_if(ids_,
                      [&](const auto& id) { return id.second.channel == channels_[i]->number; });
        channels_.erase(channels_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (polled[1].revents != 0) {
      accept_channel();
    }
  }
}

void ScriptedDaemon::accept_channel() {
  auto channel = std::make_unique<Channel>();
  channel->control =
      host::ControlSocket{os::UniqueFd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}};
  channel->number = ++last_number_;
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  channel->ours = os::UniqueFd{ends[0]};
  channel->theirs = os::UniqueFd{ends[1]};
  channels_.push_back(std::move(channel));
}

/// False when the program has closed the channel.
bool ScriptedDaemon::serve(Channel& channel) {
  const auto received = channel.control.receive();
  if (!received) {
    return received.error().code == ErrorCode::TryAgain;
  }
  seen_.insert_or_assign(received->message.index(), received->message);
  const auto planned = refusals_.find(received->message.index());
  const bool is_refused = planned != refusals_.end();
  if (received->message.holds<uabi::OpenRdmaCm>() && !is_refused) {
    const int fd = channel.theirs.get();
    return static_cast<bool>(
        channel.control.send(uabi::RdmaCmOpened{.channel = channel.number}, {&fd, 1}));
  }
  const uabi::Message said =
      is_refused ? uabi::Message{planned->second} : answer(channel, received->message);
  if (is_refused) {
    refusals_.erase(planned);
  }
  return static_cast<bool>(channel.control.send(said));
}

uabi::Message ScriptedDaemon::answer(Channel& channel, const uabi::Message& request) {
  return request.visit([&](const auto& each) { return handle(channel, each); });
}

void ScriptedDaemon::raise(std::uint32_t id, uabi::RdmaCmEvent event) {
  const std::lock_guard guard{lock_};
  raise_locked(id, std::move(event));
}

void ScriptedDaemon::raise_locked(std::uint32_t id, uabi::RdmaCmEvent event) {
  const auto found = ids_.find(id);
  if (found == ids_.end()) {
    return;
  }
  event.uid = event.uid == 0 ? found->second.uid : event.uid;
  event.id = event.id == 0 ? id : event.id;
  if (Channel* const channel = channel_of(found->second.channel)) {
    channel->events.emplace_back(id, std::move(event));
    show(*channel);
  }
}

/// One octet while an event waits.
void ScriptedDaemon::show(Channel& channel) {
  char octet{};
  const bool is_shown =
      recv(channel.theirs.get(), &octet, sizeof octet, MSG_PEEK | MSG_DONTWAIT) > 0;
  if (is_shown && channel.events.empty()) {
    recv(channel.theirs.get(), &octet, sizeof octet, MSG_DONTWAIT);
  } else if (!is_shown && !channel.events.empty()) {
    send(channel.ours.get(), &octet, sizeof octet, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

ScriptedDaemon::Channel* ScriptedDaemon::channel_of(std::uint32_t number) {
  const auto found =
      std::ranges::find_if(channels_, [&](const auto& each) { return each->number == number; });
  return found == channels_.end() ? nullptr : found->get();
}

uabi::Message ScriptedDaemon::handle(Channel& channel, const uabi::CreateRdmaCmId& request) {
  Id& id = ids_[++last_number_];
  id.channel = channel.number;
  id.uid = request.uid;
  id.is_datagram = request.qp_type == IBV_QPT_UD;
  return uabi::RdmaCmAnswer{.error = 0, .value = last_number_, .reason = {}};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::DestroyRdmaCmId& request) {
  const auto found = ids_.find(request.id);
  if (found == ids_.end()) {
    return refusal(ENOENT, "no such id");
  }
  if (Channel* const channel = channel_of(found->second.channel)) {
    std::erase_if(channel->events, [&](const auto& each) { return each.first == request.id; });
    show(*channel);
  }
  const std::uint32_t told = found->second.told;
  ids_.erase(found);
  return uabi::RdmaCmAnswer{.error = 0, .value = told, .reason = {}};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::BindRdmaCmId& request) {
  uabi::RdmaCmIdState& state = ids_[request.id].state;
  state.source = request.address;
  state.source.port = state.source.port == 0 ? ++last_port_ : state.source.port;
  if (!has_wildcard(request.address)) {
    state.device = "weft0";
    state.port = PortNumber{1};
    state.pkey = PKey{0xFFFF};
    state.sgid = Gid{kDefaultGidPrefix, Guid{1}};
  }
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel& channel, const uabi::ResolveRdmaCmAddress& request) {
  uabi::RdmaCmAddress source = own_address(request.destination);
  source.port = 0;
  static_cast<void>(handle(channel, uabi::BindRdmaCmId{.id = request.id, .address = source}));
  uabi::RdmaCmIdState& state = ids_[request.id].state;
  state.destination = request.destination;
  state.dgid = Gid{kDefaultGidPrefix, Guid{2}};
  raise_locked(request.id, {.type = verbs::RdmaCmEventType::AddressResolved});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel& channel, const uabi::ResolveRdmaCmRoute& request) {
  const uabi::RdmaCmIdState& state = ids_[request.id].state;
  const verbs::Path path{.sgid = state.sgid,
                         .dgid = state.dgid,
                         .slid = lid_,
                         .dlid = lid_,
                         .mtu = verbs::Mtu::Mtu2048,
                         .rate = IBV_RATE_100_GBPS,
                         .packet_life_time = 10};
  return handle(channel, uabi::SetRdmaCmPaths{.id = request.id, .paths = {path}});
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::SetRdmaCmPaths& request) {
  ids_[request.id].state.paths = request.paths;
  raise_locked(request.id, {.type = verbs::RdmaCmEventType::RouteResolved});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::QueryRdmaCmId& request) {
  return ids_[request.id].state;
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::ListenRdmaCm& request) {
  Id& id = ids_[request.id];
  id.listens = true;
  if (id.state.source.family == uabi::RdmaCmFamily::None) {
    id.state.source = {.family = uabi::RdmaCmFamily::Ip4, .port = ++last_port_};
  }
  return uabi::RdmaCmAnswer{};
}

/// To whoever listens at the port.
uabi::Message ScriptedDaemon::handle(Channel&, const uabi::ConnectRdmaCm& request) {
  Id& active = ids_[request.id];
  active.parameters = request.parameters;
  const auto found = std::ranges::find_if(ids_, [&](const auto& each) {
    return each.second.listens && each.second.state.source.port == active.state.destination.port;
  });
  if (found == ids_.end()) {
    raise_locked(request.id, {.type = verbs::RdmaCmEventType::Rejected, .status = 8});
    return uabi::RdmaCmAnswer{};
  }
  const auto& [listener_number, listener] = *found;
  const std::uint32_t number = ++last_number_;
  active.peer = number;
  Id& passive = ids_[number];
  passive.channel = listener.channel;
  passive.is_datagram = listener.is_datagram;
  passive.peer = request.id;
  passive.state = active.state;
  std::swap(passive.state.source, passive.state.destination);
  std::swap(passive.state.sgid, passive.state.dgid);
  verbs::ConnectionParameters told = request.parameters;  // depths as the passive side sees them
  std::swap(told.initiator_depth, told.responder_resources);
  told.private_data.resize(active.is_datagram ? 180 : 56);
  raise_locked(listener_number, {.type = verbs::RdmaCmEventType::ConnectRequest,
                                 .uid = listener.uid,
                                 .id = number,
                                 .parameters = told});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::AcceptRdmaCm& request) {
  Id& id = ids_[request.id];
  id.uid = request.uid;
  if (!request.has_parameters) {
    raise_locked(id.peer, {.type = verbs::RdmaCmEventType::Established});
    return uabi::RdmaCmAnswer{};
  }
  id.parameters = request.parameters;
  verbs::ConnectionParameters told = request.parameters;
  told.qkey = QKey{kQKey};
  raise_locked(id.peer, {
                            .type = id.is_datagram ? verbs::RdmaCmEventType::Established
                                                   : verbs::RdmaCmEventType::ConnectResponse,
                            .parameters = told,
                            .address_vector = {.dlid = lid_, .port = PortNumber{1}}
  });
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::RejectRdmaCm& request) {
  raise_locked(ids_[request.id].peer,
               {.type = verbs::RdmaCmEventType::Rejected,
                .status = request.reason == 0 ? 28 : request.reason,
                .parameters = {.private_data = request.private_data.octets}});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::DisconnectRdmaCm& request) {
  raise_locked(request.id, {.type = verbs::RdmaCmEventType::Disconnected});
  raise_locked(ids_[request.id].peer, {.type = verbs::RdmaCmEventType::Disconnected});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::InitRdmaCmQp& request) {
  const Id& id = ids_[request.id];
  const auto peer = ids_.find(id.peer);
  return uabi::RdmaCmQpAttributes{
      {.mask = verbs::QpAttributeMask::from_bits(
           mask_of(static_cast<ibv_qp_state>(request.state), id.is_datagram)),
       .attributes = {
           .state = verbs::qp_state_of(request.state).value_or(verbs::QpState::Reset),
           .path_mtu = verbs::Mtu::Mtu2048,
           .qkey = QKey{kQKey},
           .rq_psn = Psn{id.peer},
           .sq_psn = Psn{request.id},
           .dest_qpn = peer == ids_.end() ? Qpn{} : peer->second.parameters.qpn,
           .access = verbs::AccessFlags{verbs::Access::RemoteWrite} | verbs::Access::RemoteRead,
           .address = {.dlid = lid_, .port = PortNumber{1}},
           .max_rd_atomic = 4,
           .max_dest_rd_atomic = 4,
           .min_rnr_timer = 1,
           .port = PortNumber{1},
           .timeout = TimeoutExponent{14},
           .retry_count = 7,
           .rnr_retry = 7}}
  };
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::JoinRdmaCmGroup& request) {
  memberships_[++last_number_] = {.id = request.id, .uid = request.uid};
  raise_locked(request.id,
               {
                   .type = verbs::RdmaCmEventType::MulticastJoin,
                   .uid = request.uid,
                   .parameters = {.qpn = kMulticastQpn, .qkey = QKey{kQKey}},
                   .address_vector = {.dlid = Lid{0xC001},
                                  .port = PortNumber{1},
                                  .is_global = true,
                                  .grh = {.dgid = Gid{0xFF12'401B'FFFF'0000, Guid{1}}}}
  });
  return uabi::RdmaCmAnswer{.error = 0, .value = last_number_, .reason = {}};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::LeaveRdmaCmGroup& request) {
  const auto found = memberships_.find(request.membership);
  if (found == memberships_.end()) {
    return refusal(ENOENT, "no such membership");
  }
  const std::uint32_t told = found->second.told;
  memberships_.erase(found);
  return uabi::RdmaCmAnswer{.error = 0, .value = told, .reason = {}};
}

uabi::Message ScriptedDaemon::handle(Channel& channel, const uabi::MigrateRdmaCmId& request) {
  Channel* const from = channel_of(request.from);
  const auto found = ids_.find(request.id);
  if (from == nullptr || found == ids_.end() || found->second.channel != request.from) {
    return refusal(ENOENT, "no such id on that channel");
  }
  found->second.channel = channel.number;
  for (const auto& event : from->events) {
    if (event.first == request.id) {
      channel.events.push_back(event);
    }
  }
  std::erase_if(from->events, [&](const auto& each) { return each.first == request.id; });
  show(*from);
  show(channel);
  return uabi::RdmaCmAnswer{.error = 0, .value = found->second.told, .reason = {}};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::ResolveRdmaCmService& request) {
  const bool is_known =
      request.name == service_name_ ||
      (request.name.empty() && std::ranges::any_of(services_, [&](const auto& each) {
         return each.service_id == request.service_id;
       }));
  raise_locked(request.id, {.type = is_known ? verbs::RdmaCmEventType::AddrinfoResolved
                                             : verbs::RdmaCmEventType::AddrinfoError,
                            .status = is_known ? 0 : -ENOENT});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::QueryRdmaCmServices&) {
  return uabi::RdmaCmServices{services_};
}

uabi::Message ScriptedDaemon::handle(Channel&, const uabi::WriteRdmaCmEvent& request) {
  raise_locked(request.id, {.type = request.type,
                            .uid = request.uid,
                            .status = request.status,
                            .argument = request.argument});
  return uabi::RdmaCmAnswer{};
}

uabi::Message ScriptedDaemon::handle(Channel& channel, const uabi::GetRdmaCmEvent&) {
  if (channel.events.empty()) {
    return uabi::NoRdmaCmEvent{};
  }
  const auto [id, event] = channel.events.front();
  channel.events.pop_front();
  ++ids_[id].told;
  for (auto& [number, membership] : memberships_) {
    membership.told += membership.uid == event.uid ? 1 : 0;
  }
  show(channel);
  return event;
}

}  // namespace weft::testing
