// A host between an SA and neighbours that send arbitrary messages at any time, while its port goes
// up and down. Checks that invariants and limits hold and that each request completes exactly once.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "mad/management_interface.h"
#include "mad/testing/script.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"
#include "wire/ipoib/message.h"
#include "wire/ipoib/mgid.h"

namespace weft::sa {
namespace {

using mad::require;

constexpr Lid kSaLid{1};
constexpr PortKey kPort{1};
constexpr std::size_t kMaxNeighbors = 3;
constexpr std::size_t kMaxQueries = 6;

class Game {
 public:
  explicit Game(mad::Script& script) : script_(script) {
    set_port();
    require(
        resolver_
            .add_interface(
                {
                    .port = kPort
    },
                Qpn{0x100}, sa_,
                {{IpAddress::v4(0x0A00'0001), 24}, {IpAddress::v6(0xFD00'0000'0000'0000, 1), 64}},
                now_)
            .has_value());
  }

  void play() {
    for (unsigned moves = 0; !script_.is_over() && moves < 300; ++moves) {
      move();
      require(sa_.queries() <= kMaxQueries);
      resolver_.interface({.port = kPort})->neighbors().check_invariants();
      gsi_.check_invariants();
    }
    is_active_ = false;
    set_port();
    for (int turn = 0; turn < 100; ++turn) {  // lets all pending requests complete
      pass(Duration::seconds(1));
    }
    require(sa_.queries() == 0 && resolver_.resolutions() == 0);
    for (const auto& [id, times] : told_) {
      require(times == 1);
    }
  }

 private:
  void set_port() {
    port_.lid = Lid{5};
    port_.state = is_active_ ? verbs::PortState::Active : verbs::PortState::Down;
    port_.sm_lid = kSaLid;
    port_.gids = {
        Gid{kDefaultGidPrefix, Guid{5}}
    };
    port_.pkeys = {kDefaultPKey};
    sa_.set_port(port_, now_);
    resolver_.port_changed(kPort, now_);
  }

  void pass(Duration span) {
    now_ = now_ + span;
    gsi_.handle_timeout(now_);
    sa_.handle_timeout(now_);
    resolver_.handle_timeout(now_);
    while (resolver_.poll_transmit()) {
    }
    while (const auto packet = gsi_.poll_transmit(now_)) {
      last_sent_ = *packet;
    }
  }

  void move() {
    switch (script_.next() % 9) {
      case 0:
        return pass(Duration::milliseconds(script_.next() * 4));
      case 1:
        is_active_ = !is_active_;
        return set_port();
      case 2:
        port_.reregistrations = script_.next();
        return set_port();
      case 3:
        return start_path_query();
      case 4:
        return ask_for_address();
      case 5:
        return answer();
      case 6:
        return say_arp();
      case 7:
        return say_anything();
      default:
        return join_or_leave();
    }
  }

  void start_path_query() {
    const std::uint64_t key = next_key_++;
    const auto id = sa_.resolve_path(
        {
            .dgid = Gid{kDefaultGidPrefix, Guid{std::uint64_t{script_.next()} % 4}}
    },
        {.timeout = Duration::milliseconds(100 + script_.next() * 10), .tries = 3},
        [this, key](QueryId, const Answer<wire::PathRecord>&, Instant) { ++told_[key]; }, now_);
    if (id) {
      told_[key] = 0;
      if (script_.next() % 4 == 0) {
        sa_.cancel(*id, now_);
      }
    }
  }

  void ask_for_address() {
    const std::uint64_t key = next_key_++;
    const std::uint32_t host = script_.next() % 8U;
    const bool is_v4 = script_.next() % 2 == 0;
    const auto id = resolver_.resolve(
        IpAddress{},
        is_v4 ? IpAddress::v4(0x0A00'0000 + host) : IpAddress::v6(0xFD00'0000'0000'0000, host),
        Duration::milliseconds(script_.next() * 10),
        [this, key](ResolutionId, const auto&, Instant) { ++told_[key]; }, now_);
    if (id) {
      told_[key] = 0;
      if (script_.next() % 4 == 0) {
        resolver_.cancel(*id, now_);
      }
    }
  }

  /// Answers the last request, correctly or with corrupted bytes.
  void answer() {
    if (!last_sent_) {
      return;
    }
    mad::MadBytes mad = last_sent_->bytes;
    // SA answers a Set by GetResp (IBTA vol 1 §13.4.5).
    const bool is_set = mad[3] == static_cast<std::byte>(wire::MadMethod::Set);
    mad[3] = is_set ? static_cast<std::byte>(wire::MadMethod::GetResp)
                    : mad[3] | std::byte{wire::kMethodResponseBit};
    for (unsigned changes = script_.next() % 4; changes != 0; --changes) {
      mad[script_.next()] = static_cast<std::byte>(script_.next());
    }
    constexpr std::size_t kMlidAt = wire::kSizeOf<wire::SaHeader> + 36;
    if (script_.next() % 2 == 0) {
      mad[kMlidAt] = std::byte{0xC0};
    }
    gsi_.handle_mad({.lid = kSaLid}, mad, now_);
  }

  [[nodiscard]] wire::IpoibHardwareAddress hardware() {
    return {
        .qpn = Qpn{script_.next()},
        .gid = Gid{kDefaultGidPrefix, Guid{std::uint64_t{script_.next()} % 4}}
    };
  }

  void say_arp() {
    const bool asks = script_.next() % 2 == 0;
    deliver(to_payload(wire::ArpMessage{
        .operation = asks ? wire::ArpOperation::Request : wire::ArpOperation::Reply,
        .sender_hardware = hardware(),
        .sender = IpAddress::v4(0x0A00'0000 + script_.next() % 8U),
        .target_hardware = {},
        .target = IpAddress::v4(0x0A00'0000 + script_.next() % 8U)}));
  }

  void say_anything() {
    std::vector<std::byte> payload(script_.next());
    std::ranges::generate(payload, [this] { return static_cast<std::byte>(script_.next()); });
    deliver(payload);
  }

  void deliver(ByteSpan payload) {
    const std::uint8_t how = script_.next();
    mad::ReceivedDatagram datagram{
        .destination_qp = Qpn{0x100},
        .destination_gid = {},
        .source = {.lid = Lid{how}, .qp = Qpn{9}},
        .payload = payload
    };
    datagram.source.qkey = QKey{};  // the Q_Key in answer()'s records
    if (how % 2 == 0) {
      datagram.destination_qp = kMulticastQpn;
      datagram.destination_gid = wire::ipoib_broadcast_group(kDefaultPKey);
      datagram.source.global = mad::GlobalRoute{.dgid = hardware().gid};
    }
    resolver_.handle_datagram(kPort, datagram, now_);
  }

  void join_or_leave() {
    if (membership_) {
      sa_.leave(*std::exchange(membership_, std::nullopt), now_);
      return;
    }
    wire::McMemberRecord wanted{
        .mgid = Gid{0xFF12'0000'0000'0000, Guid{script_.next()}}
    };
    wanted.join_state = wire::JoinState::FullMember;
    const auto id = sa_.join(wanted, 0, [](auto&&...) {}, now_);
    if (id) {
      membership_ = *id;
    }
  }

  mad::Script& script_;
  Instant now_{Duration::seconds(1)};
  bool is_active_{true};
  LocalPort port_;
  mad::ManagementInterface gsi_{mad::InterfaceKind::Gsi};
  SaClient sa_{
      gsi_, {.queries = kMaxQueries, .memberships = 4, .cached_paths = 2}
  };
  Resolver resolver_{
      {.limits = {.resolutions = 5, .interface = {.neighbors = {.neighbors = kMaxNeighbors}}}}};
  std::optional<mad::MadPacket> last_sent_;
  std::optional<MembershipId> membership_;
  std::map<std::uint64_t, int> told_;
  std::uint64_t next_key_{};
};

}  // namespace
}  // namespace weft::sa

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  weft::sa::Game{script}.play();
  return 0;
}
