// RDMA-CM messages of programs (uabi/rdma_cm_messages.h): three channels, two of them of one
// process, on two hosts of a fabric. Messages are decoded as from a socket and executed as by the
// daemon, without sockets. Checks that refusals give a reason, that no process reaches another's
// ids, that an id has one channel, and that no id remains after the programs.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/testing/pieces.h"
#include "daemon/rdma_cm/channel.h"
#include "daemon/rdma_cm/translate.h"
#include "daemon/testing/conversation.h"
#include "fabric/topology.h"
#include "mad/testing/script.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "node/testing/settle.h"
#include "uabi/testing/sample_message.h"

namespace weft::daemon {
namespace {

using mad::require;

constexpr std::size_t kMaxIds = 24;                   // per input, for speed
constexpr Duration kLongWait = Duration::seconds(5);  // longer than CM timeouts
constexpr fuzz::PieceFormat kFormat{.head_octets = 3};

/// A running fabric, reused for many inputs. It is recreated when connections remain that end by
/// timeout, which would take time from later inputs.
struct World {
  std::unique_ptr<node::Fabric> fabric = *node::Fabric::create(*fabric::generate("star:2"), {});
  Instant now{Duration::seconds(1)};

  [[nodiscard]] fabric::NodeIndex host(unsigned number) const {
    return *fabric->builder().find_node(number == 1 ? "h1" : "h2");
  }
  [[nodiscard]] std::array<Gid, 2> gids() const {
    const auto of = [&](unsigned number) {
      return fabric->builder().gids(fabric->builder().node(host(number)).first_port).front();
    };
    return {of(1), of(2)};
  }
  [[nodiscard]] cm::RdmaCm& rdma(fabric::NodeIndex host) {
    return fabric->hosts().host(host, now).rdma_cm();
  }
  [[nodiscard]] cm::ConnectionManager& connections(fabric::NodeIndex host) {
    return fabric->hosts().host(host, now).connections();
  }
};

[[nodiscard]] std::unique_ptr<World>& world_place() {
  static auto place = std::make_unique<World>();
  return place;
}

class Game {
 public:
  explicit Game(World& world) : world_(world) {
    constexpr std::array<unsigned, 3> kHosts = {1, 2, 1};
    for (std::uint32_t i = 0; i < kHosts.size(); ++i) {
      channels_.at(i) = std::make_unique<RdmaCmChannel>(
          RdmaCmChannel::Owner{.number = i + 1,
                               .pid = static_cast<pid_t>(kHosts.at(i)),
                               .host = world.host(kHosts.at(i)),
                               .loopback_target = world.fabric->main_address_of("h2")},
          os::UniqueFd{}, std::make_shared<const os::UniqueFd>());
    }
  }

  void play(std::span<const std::uint8_t> input) {
    for (const fuzz::Piece& piece : fuzz::split(input, kFormat)) {
      channel_ = channels_.at(piece.head[0] % channels_.size()).get();
      if (const auto message = uabi::decode(std::as_bytes(std::span{piece.message}))) {
        message->visit([&](const auto& request) { apply(request); });
      }
      pass(piece.head[1]);
      check();
    }
    leave();
  }

 private:
  [[nodiscard]] cm::RdmaCm& rdma() { return world_.rdma(channel_->owner().host); }

  /// Lets no time pass, some, much, or until the next deadline.
  void pass(std::uint8_t how) {
    if (how == testing::Conversation::kNothing) {
      return;
    }
    node::Fabric& fabric = *world_.fabric;
    for (const auto& channel : channels_) {
      fabric.hosts().wake(channel->owner().host);
    }
    const Instant due = fabric.management_deadline();
    if (how % 8 == 1 && due != Instant::never()) {
      world_.now = std::min(std::max(world_.now, due), world_.now + Duration::seconds(2));
    } else if (how == testing::Conversation::kLong) {
      world_.now = world_.now + kLongWait;
    } else {
      world_.now = world_.now + Duration::milliseconds(how >> 3);
    }
    for (int turn = 0; turn < 64 && fabric.run_management(world_.now); ++turn) {
    }
  }

  void check() {
    std::size_t ids = 0;
    for (const auto& channel : channels_) {
      for (const cm::RdmaCmId id : channel->ids()) {
        const auto info = world_.rdma(channel->owner().host).info(id);
        require(info.has_value());
        static_cast<void>(state_of(*info));
      }
      ids += channel->ids().size();
    }
    require(ids == rdma_ids());
  }
  [[nodiscard]] std::size_t rdma_ids() {
    return world_.rdma(world_.host(1)).size() + world_.rdma(world_.host(2)).size();
  }

  /// Ends the programs: connections are released by DREQ.
  void leave() {
    for (const auto& channel : channels_) {
      for (const cm::RdmaCmId id : channel->ids()) {
        static_cast<void>(world_.rdma(channel->owner().host).destroy(id, world_.now));
      }
      world_.fabric->hosts().wake(channel->owner().host);
    }
    require(rdma_ids() == 0);
  }

  void said(const Result<void>& result) {
    require(result.has_value() || !result.error().reason.empty());
  }

  // --- ids in the input: the index of an existing id, or an arbitrary number
  [[nodiscard]] cm::RdmaCmId id_of(std::uint32_t number) const {
    std::vector<cm::RdmaCmId> all = channel_->ids();
    for (const auto& channel : channels_) {
      const auto more = channel->ids();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all.empty() || number >= 0x100 ? cm::RdmaCmId{number} : all[number % all.size()];
  }
  /// The id's channel, if it belongs to the same process.
  [[nodiscard]] RdmaCmChannel* channel_of(cm::RdmaCmId id) {
    for (const auto& channel : channels_) {
      if (channel->owner().pid == channel_->owner().pid && channel->has(id)) {
        return channel.get();
      }
    }
    return nullptr;
  }
  template <class Call>
  void on(std::uint32_t number, Call call) {
    if (const cm::RdmaCmId id = id_of(number); channel_of(id) != nullptr) {
      said(call(id));
    }
  }

  void apply(const uabi::CreateRdmaCmId& request) {
    const auto space = port_space_of(request.port_space);
    const auto type = verbs::qp_type_of(request.qp_type);
    if (space && type && rdma_ids() < kMaxIds) {
      if (const auto id = rdma().create(*space, *type, *channel_, request.uid)) {
        channel_->add(*id);
      } else {
        require(!id.error().reason.empty());
      }
    }
  }
  void apply(const uabi::DestroyRdmaCmId& request) {
    const cm::RdmaCmId id = id_of(request.id);
    RdmaCmChannel* const owner = channel_of(id);
    if (owner == nullptr) {
      return;
    }
    for (const cm::RdmaCmEvent& event : owner->remove(id).events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        static_cast<void>(owner->remove(event.id));
        said(rdma().destroy(event.id, world_.now));
      }
    }
    said(rdma().destroy(id, world_.now));
  }
  void apply(const uabi::BindRdmaCmId& request) {
    const cm::SocketAddress address = address_of(request.address);
    require(address_of(address_of(address)) == address);
    on(request.id, [&](cm::RdmaCmId id) { return rdma().bind(id, address, world_.now); });
  }
  void apply(const uabi::ResolveRdmaCmAddress& request) {
    on(request.id, [&](cm::RdmaCmId id) {
      return rdma().resolve_address(id,
                                    {.source = address_of(request.source),
                                     .destination = address_of(request.destination),
                                     .timeout = Duration::milliseconds(request.timeout_ms),
                                     .loopback_target = channel_->owner().loopback_target},
                                    world_.now);
    });
  }
  void apply(const uabi::ResolveRdmaCmRoute& request) {
    on(request.id, [&](cm::RdmaCmId id) {
      return rdma().resolve_route(id, Duration::milliseconds(request.timeout_ms), world_.now);
    });
  }
  void apply(const uabi::ListenRdmaCm& request) {
    on(request.id, [&](cm::RdmaCmId id) { return rdma().listen(id, request.backlog, world_.now); });
  }
  void apply(const uabi::ConnectRdmaCm& request) {
    on(request.id,
       [&](cm::RdmaCmId id) { return rdma().connect(id, request.parameters, world_.now); });
  }
  void apply(const uabi::AcceptRdmaCm& request) {
    on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      auto accepted =
          rdma().accept(id, request.has_parameters ? &request.parameters : nullptr, world_.now);
      return accepted && request.has_parameters ? rdma().set_context(id, request.uid) : accepted;
    });
  }
  void apply(const uabi::RejectRdmaCm& request) {
    on(request.id, [&](cm::RdmaCmId id) {
      return rdma().reject(id, request.reason, request.private_data.octets, world_.now);
    });
  }
  void apply(const uabi::DisconnectRdmaCm& request) {
    on(request.id, [&](cm::RdmaCmId id) { return rdma().disconnect(id, world_.now); });
  }
  void apply(const uabi::InitRdmaCmQp& request) {
    on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      constexpr std::uint32_t kInit = 1;  // to RTS, 3: the range that the daemon accepts
      const auto modification =
          rdma().qp_attributes(id, static_cast<verbs::QpState>(kInit + request.state % 3));
      if (!modification) {
        return std::unexpected(modification.error());
      }
      require(!modification->mask.empty());
      return {};
    });
  }
  void apply(const uabi::SetRdmaCmOption& request) {
    on(request.id,
       [&](cm::RdmaCmId id) { return rdma().set_option(id, request.option, request.value); });
  }
  void apply(const uabi::SetRdmaCmPaths& request) {
    on(request.id, [&](cm::RdmaCmId id) { return rdma().set_paths(id, request.paths); });
  }
  void apply(const uabi::NotifyRdmaCm& request) {
    on(request.id, [&](cm::RdmaCmId id) { return rdma().notify(id, request.event, world_.now); });
  }
  void apply(const uabi::JoinRdmaCmGroup& request) {
    on(request.id, [&](cm::RdmaCmId id) -> Result<void> {
      const auto group = rdma().join(id, address_of(request.address), request.is_send_only,
                                     request.uid, world_.now);
      if (!group) {
        return std::unexpected(group.error());
      }
      groups_.push_back(*group);
      return {};
    });
  }
  void apply(const uabi::LeaveRdmaCmGroup& request) {
    const cm::GroupId group =
        groups_.empty() ? cm::GroupId{} : groups_[request.membership % groups_.size()];
    const auto id = rdma().id_of(group);
    if (RdmaCmChannel* const owner = id ? channel_of(*id) : nullptr) {
      said(rdma().leave(group, world_.now));
      static_cast<void>(owner->forget(*id, group));
    }
  }
  void apply(const uabi::MigrateRdmaCmId& request) {
    const cm::RdmaCmId id = id_of(request.id);
    RdmaCmChannel* const from = channel_of(id);
    if (from == nullptr) {
      return;
    }
    const RdmaCmChannel::RemovedId remains = from->remove(id);
    channel_->add(id, remains.reported);
    said(rdma().set_sink(id, *channel_));
    for (const cm::RdmaCmEvent& event : remains.events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        channel_->add(event.id, from->remove(event.id).reported);
        said(rdma().set_sink(event.id, *channel_));
      }
    }
    channel_->append(remains.events);
  }
  void apply(const uabi::ResolveRdmaCmService& request) {
    on(request.id, [&](cm::RdmaCmId id) {
      return rdma().resolve_service(id, {.service_id = request.service_id, .name = request.name},
                                    world_.now);
    });
  }
  void apply(const uabi::QueryRdmaCmServices& request) {
    if (const cm::RdmaCmId id = id_of(request.id); channel_of(id) != nullptr) {
      const uabi::RdmaCmServices reported = services_of(*rdma().services(id));
      require(uabi::decode(uabi::encode(reported)).has_value());
    }
  }
  void apply(const uabi::WriteRdmaCmEvent& request) {
    uabi::WriteRdmaCmEvent written = request;
    written.id = id_of(request.id).value();
    RdmaCmChannel* const owner = channel_of(cm::RdmaCmId{written.id});
    const auto event = event_of(written);
    if (owner != nullptr && event) {
      static_cast<void>(owner->take(*event));
    }
  }
  void apply(const uabi::GetRdmaCmEvent& /*request*/) {
    if (const auto event = channel_->next()) {
      const uabi::RdmaCmEvent reported = event_of(*event);
      require(uabi::decode(uabi::encode(reported)).has_value());
    }
  }
  void apply(const uabi::CommunicationEstablished& request) {
    rdma().communication_established(request.qpn, world_.now);
  }
  void apply(const auto& /*message*/) {}

  World& world_;
  std::array<std::unique_ptr<RdmaCmChannel>, 3> channels_;
  RdmaCmChannel* channel_{};  // of the current message
  std::vector<cm::GroupId> groups_;
};

/// Gives pending exchanges a little time.
void rest(std::unique_ptr<World>& world) {
  node::testing::settle(*world->fabric, world->now, Duration::milliseconds(500));
  world->now = world->now + Duration::milliseconds(500);
  for (const unsigned number : {1U, 2U}) {
    if (!world->connections(world->host(number)).ids().empty()) {
      world = std::make_unique<World>();
      return;
    }
  }
}

[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  constexpr std::size_t kFirst = uabi::testing::kKindOf<uabi::CreateRdmaCmId>;
  constexpr std::size_t kLast = uabi::testing::kKindOf<uabi::CommunicationEstablished>;
  constexpr std::size_t kLater = uabi::testing::kKindOf<uabi::ResolveRdmaCmService>;
  constexpr std::size_t kLaterKinds = 3;
  const auto next = [&] { return static_cast<std::uint8_t>(random()); };
  const std::size_t kind = random.chance(1, 8) ? kLater + random.below(kLaterKinds)
                                               : kFirst + random.below(kLast - kFirst + 1);
  return {
      .head = {next(), next()},
        .message = uabi::testing::sample_octets(kind, random)
  };
}

}  // namespace
}  // namespace weft::daemon

/// The input consists of pieces: an octet for the channel, one for the time after it, one for the
/// length, and a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::unique_ptr<weft::daemon::World>& world = weft::daemon::world_place();
  weft::daemon::Game{*world}.play({data, size});
  weft::daemon::rest(world);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  constexpr std::uint64_t kSeldom = 64;
  weft::Random random{seed};
  if (random.chance(1, kSeldom)) {
    const std::array gids = weft::daemon::world_place()->gids();
    return weft::fuzz::join(weft::daemon::testing::Conversation{random, gids}.pieces(),
                            {data, most}, weft::daemon::kFormat);
  }
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::daemon::kFormat,
                                   weft::daemon::make_piece);
}
