// Two connection managers with random user calls, on a network that loses, duplicates, delays,
// corrupts and forges messages. Checks that invariants hold, that refused calls give a reason, and
// that nothing remains after all ids are destroyed and all timers have expired.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "cm/connection_manager.h"
#include "cm/messages.h"
#include "mad/management_interface.h"
#include "mad/testing/script.h"
#include "wire/cm/dreq.h"

namespace weft::cm {
namespace {

using mad::require;
using mad::Script;

constexpr Options kOptions{
    .limits = {.ids = 12,
               .time_waits = 6,
               .backlog = 5,
               .unanswered_of_peer = 4,
               .service_masks = 2,
               .extensions = 3}
};

class Player final : public CmObserver {
 public:
  Player(Script& script, std::uint32_t lid)
      : lid_(lid), script_(script), gsi_(mad::InterfaceKind::Gsi, {.queued_mads = 64}) {
    Options options = kOptions;
    options.seed = lid;
    options.holds_time_wait = script.next() % 4 != 0;
    manager_.emplace(options);
    require(manager_->add_port(PortKey{1}, gsi_, address()).has_value());
  }

  [[nodiscard]] PortAddress address() const {
    PortAddress address;
    address.lid = Lid{lid_};
    address.gids = {gid(), other_gid()};
    address.pkeys = {kDefaultPKey};
    address.ca_guid = Guid{lid_};
    return address;
  }
  [[nodiscard]] Gid gid() const { return {1, Guid{lid_}}; }
  [[nodiscard]] Gid other_gid() const { return {2, Guid{lid_}}; }

  Handled handle(CmId id, const CmEvent& event, Instant now) override {
    require(!destroyed_.contains(id));
    require(manager_->status(id).has_value());
    if (event.type == CmEventType::ReqReceived || event.type == CmEventType::SidrReqReceived) {
      ids_.push_back(id);
    }
    switch (script_.next() % 8) {
      case 0:
        destroyed_.insert(id);
        return Handled::Destroy;
      case 1:
        destroyed_.insert(id);
        return Handled::DestroyNoResources;
      case 2:
        destroy(id, now);
        return Handled::Keep;
      case 3:
        call(id, now);
        return Handled::Keep;
      default:
        follow(id, event.type, now);
        return Handled::Keep;
    }
  }

  void act(Instant now) {
    const std::uint8_t choice = script_.next();
    if (choice % 8 == 0 || ids_.empty()) {
      if (const auto id = manager_->create(*this, choice)) {
        ids_.push_back(*id);
      }
      return;
    }
    const CmId id = ids_[script_.next() % ids_.size()];
    if (choice % 8 == 1) {
      return destroy(id, now);
    }
    call(id, now);
  }

  void destroy_all(Instant now) {
    for (const CmId id : ids_) {
      while (manager_->destroy(id, now)) {
      }
      destroyed_.insert(id);
    }
    ids_.clear();
  }

  [[nodiscard]] ConnectionManager& manager() { return *manager_; }
  [[nodiscard]] mad::ManagementInterface& gsi() { return gsi_; }
  Player* peer{};

 private:
  void destroy(CmId id, Instant now) {
    const bool is_there = manager_->status(id) && !manager_->status(id)->is_detached;
    require(manager_->destroy(id, now).has_value() == is_there);
    if (!manager_->status(id) || manager_->status(id)->is_detached) {
      destroyed_.insert(id);
    }
  }

  /// Reacts to an event as a well-behaved user would.
  void follow(CmId id, CmEventType type, Instant now) {
    if (type == CmEventType::ReqReceived) {
      said(manager_->send_rep(id, reply(), now));
    } else if (type == CmEventType::RepReceived) {
      said(manager_->send_rtu(id, {}, now));
    } else if (type == CmEventType::DreqReceived) {
      said(manager_->send_drep(id, {}, now));
    } else if (type == CmEventType::LapReceived) {
      said(manager_->send_apr(id, {}, now));
    } else if (type == CmEventType::SidrReqReceived) {
      said(manager_->send_sidr_rep(id, {}, now));
    }
  }

  template <class T>
  void said(const Result<T>& result) {
    require(result.has_value() || !result.error().reason.empty());
  }

  [[nodiscard]] Path path() {
    const std::uint8_t flags = script_.next();
    return {.sgid = gid(),
            .dgid = (flags & 1) != 0 ? peer->other_gid() : peer->gid(),
            .slid = Lid{lid_},
            .dlid = Lid{(flags & 2) != 0 ? lid_ : peer->lid_},
            .sl = ServiceLevel{static_cast<std::uint8_t>((flags & 4) != 0 ? 3 : 0)},
            .packet_life_time = static_cast<std::uint8_t>(flags >> 4),
            .hop_limit = static_cast<std::uint8_t>((flags & 8) != 0 ? 64 : 0)};
  }
  [[nodiscard]] ReplyParameters reply() {
    return {.qpn = Qpn{script_.next() % 16U}, .target_ack_delay = 3};
  }
  [[nodiscard]] RequestParameters request() {
    RequestParameters request{.primary = path(),
                              .service_id = script_.next() % 4U,
                              .qpn = Qpn{script_.next() % 16U},
                              .remote_cm_response_timeout = 10,
                              .local_cm_response_timeout = 10,
                              .max_cm_retries = 3};
    const std::uint8_t flags = script_.next();
    request.peer_to_peer = (flags & 1) != 0;
    if ((flags & 2) != 0) {
      request.alternate = path();
    }
    request.qp_type = (flags & 4) != 0   ? QpType::XrcInitiator
                      : (flags & 8) != 0 ? QpType::Uc
                                         : QpType::Rc;
    return request;
  }

  void listen(CmId id) {
    static constexpr std::array kValue = {std::byte{1}};
    ListenParameters parameters{.service_id = script_.next() % 4U};
    const std::uint8_t flags = script_.next();
    parameters.service_mask = (flags & 1) != 0 ? ~std::uint64_t{flags} : 0;
    if ((flags & 2) != 0) {
      parameters.match = {
          .value = {kValue.begin(), kValue.end()},
            .mask = {kValue.begin(), kValue.end()}
      };
    }
    if ((flags & 4) != 0) {
      parameters.service_id = kAssignServiceId;
    }
    said(manager_->listen(id, parameters));
  }

  void call(CmId id, Instant now) {
    static constexpr std::array<std::byte, 225> kData{};
    const ByteSpan data = ByteSpan{kData}.first(script_.next() % 16 == 0 ? kData.size() : 9);
    ConnectionManager& cm = *manager_;
    switch (script_.next() % 18) {
      case 0:
        return listen(id);
      case 1:
      case 2:
        return said(cm.send_req(id, request(), now));
      case 3:
        return said(cm.send_rep(id, reply(), now));
      case 4:
        return said(cm.send_rtu(id, data, now));
      case 5:
        return said(cm.send_mra(id, script_.next() % 40U, data, now));
      case 6:
        return said(cm.send_rej(
            id, {.reason = static_cast<wire::RejectReason>(script_.next() % 40U)}, now));
      case 7:
        return said(cm.establish(id, now));
      case 8:
        return said(cm.notify(id, AsyncEventType::PathMigrated, now));
      case 9:
        return said(cm.send_lap(id, path(), data, now));
      case 10:
        return said(
            cm.send_apr(id, {.status = static_cast<wire::AprStatus>(script_.next() % 16U)}, now));
      case 11:
        return said(cm.send_dreq(id, data, now));
      case 12:
        return said(cm.send_drep(id, data, now));
      case 13:
        return said(cm.send_sidr_req(
            id, {.path = path(), .service_id = script_.next() % 4U, .max_cm_retries = 2}, now));
      case 14:
        return said(cm.send_sidr_rep(id, {}, now));
      case 15:
        return said(cm.init_qp_attributes(id, static_cast<QpState>(script_.next() % 4U)));
      case 16:
        return said(cm.set_observer(id, *this, 7));
      default:
        return share();
    }
  }

  void share() {
    const auto id = manager_->insert_listen(*this, script_.next() % 4U);
    said(id);
    if (id) {
      ids_.push_back(*id);
      destroyed_.erase(*id);
    }
  }

  std::uint32_t lid_;
  Script& script_;
  mad::ManagementInterface gsi_;
  std::optional<ConnectionManager> manager_;
  std::vector<CmId> ids_;
  std::set<CmId> destroyed_;
};

class Game {
 public:
  explicit Game(Script& script)
      : script_(script),
        players_{
            Player{script, 1},
            Player{script, 2}
  } {
    players_[0].peer = &players_[1];
    players_[1].peer = &players_[0];
  }

  void play() {
    constexpr unsigned kLook = 8;  // checking everything costs as much as several moves
    for (unsigned moves = 1; !script_.is_over() && moves < 300; ++moves) {
      move();
      if (moves % kLook == 0) {
        check();
      }
    }
    check();
    for (Player& player : players_) {
      player.destroy_all(now_);
    }
    check();
    // Without any answer from the peer.
    for (unsigned steps = 0; steps < 4'000 && !is_idle_now(); ++steps) {
      pass_time();
      for (Player& player : players_) {
        while (player.gsi().poll_transmit(now_)) {
        }
      }
    }
    for (Player& player : players_) {
      require(player.manager().ids().empty());
      require(player.manager().deadline() == Instant::never());
    }
  }

 private:
  void check() {
    for (Player& player : players_) {
      player.manager().check_invariants();
      require(player.manager().ids().size() <= kOptions.limits.ids + kOptions.limits.time_waits);
    }
  }

  [[nodiscard]] bool is_idle_now() {
    return std::ranges::all_of(
        players_, [](Player& player) { return player.manager().deadline() == Instant::never(); });
  }

  void collect() {
    for (Player& player : players_) {
      while (const auto packet = player.gsi().poll_transmit(now_)) {
        if (wires_.size() < 64) {
          wires_.push_back(*packet);
        }
      }
    }
  }

  void pass_time() {
    Instant next = Instant::never();
    for (Player& player : players_) {
      next = std::min(next, player.manager().deadline());
    }
    now_ = next == Instant::never() ? now_ : std::max(now_, next);
    for (Player& player : players_) {
      player.manager().handle_timeout(now_);
    }
  }

  void bring(const mad::MadPacket& packet) {
    const std::size_t to = packet.address.lid.value() == 1 ? 0 : 1;
    players_[to].gsi().handle_mad({.lid = Lid{to == 0 ? 2U : 1U}}, packet.bytes, now_);
  }

  void move() {
    collect();
    const std::uint8_t choice = script_.next();
    switch (choice % 10) {
      case 0:
      case 1:
      case 2:
        return players_[choice / 16 % 2].act(now_);
      case 3:
        return pass_time();
      case 4:
        now_ = now_ + Duration::milliseconds(script_.next());
        return pass_time();
      case 5:
        return invent();
      default:
        break;
    }
    if (wires_.empty()) {
      return;
    }
    const auto place = wires_.begin() + script_.next() % static_cast<int>(wires_.size());
    mad::MadPacket packet = *place;
    if (choice % 10 != 6) {  // otherwise it is delivered again later
      wires_.erase(place);
    }
    if (choice % 10 == 7 && choice >= 128) {
      const std::size_t at = script_.next();
      packet.bytes[at] ^= static_cast<std::byte>(script_.next());
    }
    bring(packet);
  }

  /// Forges a message of any type with existing ids.
  void invent() {
    Player& to = players_[script_.next() % 2];
    const auto ids = to.manager().ids();
    IdStatus status;
    if (!ids.empty()) {
      status = ids[script_.next() % ids.size()];
    }
    const auto attribute = static_cast<wire::CmAttribute>(0x0F + script_.next() % 13);
    mad::MadPacket packet{.address = {.lid = Lid{&to == players_.data() ? 1U : 2U}}};
    wire::Dreq dreq{.local_communication_id = status.remote_communication_id,
                    .remote_communication_id = status.local_communication_id,
                    .remote_qpn = status.local_qpn};
    for (std::byte& octet : std::span{dreq.private_data}.first<32>()) {
      octet = static_cast<std::byte>(script_.next());
    }
    packet.bytes = make_mad(attribute, script_.next(), dreq);
    bring(packet);
  }

  Script& script_;
  std::array<Player, 2> players_;
  std::deque<mad::MadPacket> wires_;
  Instant now_;
};

}  // namespace
}  // namespace weft::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  weft::cm::Game{script}.play();
  return 0;
}
