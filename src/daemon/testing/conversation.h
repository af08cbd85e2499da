#pragma once

// For fuzzers: valid or nearly valid sequences in which programs on two hosts connect and
// disconnect, join a group or share a port. Mutations of them reach states that single messages do
// not. Value types.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/random.h"
#include "base/testing/pieces.h"
#include "uabi/messages.h"
#include "uabi/testing/sample_message.h"

namespace weft::daemon::testing {

class Conversation {
 public:
  static constexpr std::uint8_t kClient = 0;  ///< the channel on h1
  static constexpr std::uint8_t kServer = 1;  ///< and on h2
  // Time that passes after a piece.
  static constexpr std::uint8_t kUntilDue = 1;
  static constexpr std::uint8_t kLong = 2;
  static constexpr std::uint8_t kNothing = 3;  ///< nor is anything answered yet
  static constexpr std::uint8_t kShort = 0x20;

  /// `gids` are those of h1 and h2.
  Conversation(Random& random, const std::array<Gid, 2>& gids) : random_(random), gids_(gids) {
    switch (random.below(8)) {
      case 0:
        join();
        break;
      case 1:
        share_port();
        break;
      case 2:
        look_in_vain();
        break;
      case 3:
        wait_in_vain();
        break;
      case 4:
        connect({.server = any_kind(), .client = any_kind()});
        break;
      default: {
        const Kind kind = any_kind();
        connect({.server = kind, .client = kind});
      }
    }
  }
  [[nodiscard]] std::span<const fuzz::Piece> pieces() const { return pieces_; }

 private:
  static constexpr std::uint16_t kTcp = 0x0106;
  static constexpr std::uint16_t kUdp = 0x0111;
  static constexpr std::uint16_t kIb = 0x013F;
  static constexpr std::uint8_t kRc = 2;  // IBV_QPT_...
  static constexpr std::uint8_t kUd = 4;
  static constexpr std::uint16_t kPort = 7;
  static constexpr std::uint32_t kWaitLimit = 2'000;

  /// Of an id.
  struct Kind {
    uabi::RdmaCmFamily family{uabi::RdmaCmFamily::Ip4};
    std::uint16_t space{kTcp};
    std::uint8_t type{kRc};
  };
  struct Ends {
    Kind server{};
    Kind client{};
  };

  [[nodiscard]] Kind any_kind() {
    constexpr std::array kFamilies = {uabi::RdmaCmFamily::Ip4, uabi::RdmaCmFamily::Ip6,
                                      uabi::RdmaCmFamily::Ib};
    Kind kind{.family = kFamilies.at(random_.below(kFamilies.size()))};
    if (random_.chance(1, 3)) {
      kind.space = kUdp;
      kind.type = kUd;
    }
    if (kind.family == uabi::RdmaCmFamily::Ib && random_.chance(1, 2)) {
      kind.space = kIb;
    }
    return kind;
  }

  void say(std::uint8_t who, const uabi::Message& message) {
    say(who, message, random_.chance(1, 2) ? kUntilDue : kShort);
  }
  void say(std::uint8_t who, const uabi::Message& message, std::uint8_t how_long) {
    fuzz::Piece piece{
        .head = {who, how_long},
          .message = {}
    };
    std::ranges::transform(uabi::encode(message), std::back_inserter(piece.message),
                           [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
    pieces_.push_back(std::move(piece));
  }

  /// Host 0 is every address.
  [[nodiscard]] uabi::RdmaCmAddress address(const Kind& kind, std::size_t host) const {
    uabi::RdmaCmAddress address{.family = kind.family, .port = kPort};
    if (kind.family == uabi::RdmaCmFamily::Ib) {
      address.octets = host == 0 ? Gid{}.octets() : gids_.at((host - 1) % gids_.size()).octets();
      address.pkey = kDefaultPKey;
      address.service_id = std::uint64_t{kind.space} << 16 | kPort;
      address.service_mask = ~std::uint64_t{0};
    } else if (host != 0 && kind.family == uabi::RdmaCmFamily::Ip4) {
      address.octets = {std::byte{127}, std::byte{77}, std::byte{0}, static_cast<std::byte>(host)};
    } else if (host != 0) {
      address.octets.front() = std::byte{0xFD};
      address.octets.at(1) = std::byte{0x77};
      address.octets.back() = static_cast<std::byte>(host);
    }
    return address;
  }
  void create(std::uint8_t who, const Kind& kind) {
    say(who, uabi::CreateRdmaCmId{.port_space = kind.space, .qp_type = kind.type});
  }
  void listen(const Kind& kind) {
    create(kServer, kind);
    say(kServer, uabi::BindRdmaCmId{.address = address(kind, random_.chance(1, 2) ? 2 : 0)});
    say(kServer, uabi::ListenRdmaCm{.backlog = 3});
  }
  void ask(const Kind& kind) {
    create(kClient, kind);
    say(kClient,
        uabi::ResolveRdmaCmAddress{.destination = address(kind, 2), .timeout_ms = kWaitLimit});
    say(kClient, uabi::GetRdmaCmEvent{});
    say(kClient, uabi::ResolveRdmaCmRoute{.timeout_ms = kWaitLimit});
    say(kClient, uabi::GetRdmaCmEvent{});
    say(kClient, uabi::ConnectRdmaCm{.parameters = uabi::testing::sample_parameters(random_)});
  }

  void connect(const Ends& ends) {
    constexpr std::uint32_t kChild = 1;  // behind its listener
    listen(ends.server);
    ask(ends.client);
    say(kServer, uabi::GetRdmaCmEvent{});
    if (random_.chance(1, 4)) {
      say(kServer, uabi::RejectRdmaCm{.id = kChild});
    } else {
      say(kServer, uabi::AcceptRdmaCm{.id = kChild, .has_parameters = true});
    }
    say(kClient, uabi::GetRdmaCmEvent{});
    say(kClient, uabi::InitRdmaCmQp{.state = 2});
    say(kClient, uabi::AcceptRdmaCm{});
    say(random_.chance(1, 2) ? kClient : kServer, uabi::GetRdmaCmEvent{});
    const std::uint8_t first = random_.chance(1, 2) ? kClient : kServer;
    const std::uint8_t second = first == kClient ? kServer : kClient;
    say(first, uabi::DisconnectRdmaCm{.id = first == kServer ? kChild : 0});
    say(second, uabi::GetRdmaCmEvent{});
    say(second, uabi::DisconnectRdmaCm{.id = second == kServer ? kChild : 0});
    say(first, uabi::GetRdmaCmEvent{}, kLong);
    say(kClient, uabi::DestroyRdmaCmId{});
  }

  void join() {
    const Kind kind{
        .family = random_.chance(1, 2) ? uabi::RdmaCmFamily::Ip4 : uabi::RdmaCmFamily::Ip6,
        .space = kUdp,
        .type = kUd};
    uabi::RdmaCmAddress group = address(kind, 9);
    group.octets.front() =
        kind.family == uabi::RdmaCmFamily::Ip4 ? std::byte{0xE0} : std::byte{0xFF};
    create(kClient, kind);
    if (random_.chance(1, 2)) {
      say(kClient, uabi::BindRdmaCmId{.address = address(kind, 1)});
    } else {  // a group as a destination; the port is chosen
      say(kClient, uabi::ResolveRdmaCmAddress{.destination = group, .timeout_ms = kWaitLimit});
    }
    say(kClient, uabi::JoinRdmaCmGroup{.is_send_only = random_.chance(1, 4), .address = group});
    say(kClient, uabi::GetRdmaCmEvent{});
    if (random_.chance(1, 2)) {
      say(kClient, uabi::LeaveRdmaCmGroup{});
    } else {
      say(kClient, uabi::DestroyRdmaCmId{});
    }
  }

  /// Ids of all kinds that bind and listen on the same port.
  void share_port() {
    constexpr std::uint32_t kIds = 4;
    for (std::uint32_t id = 0; id < kIds; ++id) {
      Kind kind = any_kind();
      kind.space = kTcp;
      kind.type = kRc;
      create(kServer, kind);
      for (const auto option : {verbs::RdmaCmOption::ReuseAddress, verbs::RdmaCmOption::AfOnly}) {
        if (random_.chance(1, 2)) {
          say(kServer, uabi::SetRdmaCmOption{.id = id, .option = option, .value = 1});
        }
      }
      say(kServer, uabi::BindRdmaCmId{.id = id, .address = address(kind, 2 * random_.below(2))});
    }
    for (std::uint32_t turn = 0; turn < kIds; ++turn) {
      const auto id = static_cast<std::uint32_t>(random_.below(kIds));
      if (random_.chance(1, 2)) {
        say(kServer, uabi::ListenRdmaCm{.id = id, .backlog = 3});
      } else {
        const auto option = static_cast<verbs::RdmaCmOption>(1 + random_.below(4));
        say(kServer, uabi::SetRdmaCmOption{
                         .id = id,
                         .option = option,
                         .value = static_cast<std::uint32_t>(random_.chance(1, 2) ? 1 : 256)});
      }
    }
  }

  /// Resolves addresses that do not exist, from addresses that do not exist, or incompletely.
  void look_in_vain() {
    const Kind kind = any_kind();
    const std::size_t nobody = random_.chance(1, 2) ? 77 : 2;
    uabi::RdmaCmAddress to = address(kind, nobody);
    if (kind.family == uabi::RdmaCmFamily::Ib && nobody != 2) {
      to.octets.back() ^= std::byte{0x55};
    }
    create(kClient, kind);
    if (random_.chance(1, 4)) {
      say(kClient, uabi::BindRdmaCmId{.address = address(kind, 2)});  // another host's
    }
    say(kClient, uabi::ResolveRdmaCmAddress{.destination = to, .timeout_ms = kWaitLimit},
        random_.chance(1, 4) ? kNothing : kLong);
    if (random_.chance(3, 4)) {
      say(kClient, uabi::ResolveRdmaCmRoute{.timeout_ms = kWaitLimit},
          random_.chance(1, 2) ? kNothing : kLong);
    }
    if (random_.chance(1, 2)) {
      say(kClient, uabi::SetRdmaCmPaths{.paths = {{}}});
    }
    say(kClient, uabi::DestroyRdmaCmId{});
  }

  /// Waits for an answer that does not come, until the timeout.
  void wait_in_vain() {
    constexpr int kTries = 18;  // of 15 retries, 4.3 s each
    const Kind kind = any_kind();
    listen(kind);
    ask(kind);
    for (int i = 0; i < kTries; ++i) {
      say(kClient, uabi::GetRdmaCmEvent{}, kLong);
    }
  }

  Random& random_;
  const std::array<Gid, 2>& gids_;
  std::vector<fuzz::Piece> pieces_;
};

}  // namespace weft::daemon::testing
