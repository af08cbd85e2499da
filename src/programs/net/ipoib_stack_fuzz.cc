// An IPoIB interface between an SA, neighbours and a host that say anything at any time, while its
// port goes up and down and its connections come and go. Checks that what it sends to each of them
// is what it may send, that tables keep their invariants, that it never wants to be called for ever
// at once, and that it comes up and reaches a neighbour in the end.

#include "programs/net/ipoib_stack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "mad/testing/script.h"
#include "ulp/ipoib/listening.h"
#include "ulp/ipoib/testing_packets.h"
#include "ulp/ipoib/too_big.h"
#include "wire/ipoib/mgid.h"
#include "wire/layout.h"
#include "wire/mad/sa_mad.h"

namespace weft::programs::net {
namespace {

using ipoib::ConnectionAction;
using mad::require;

constexpr Lid kSaLid{1};
constexpr Qpn kOwnQpn{0x101};
constexpr QKey kLinkQKey{0xB1B};
constexpr unsigned kMostMoves = 300;
constexpr unsigned kMostAtOnce = 20'000;  // what one call may have queued: far above all limits

class Game {
 public:
  explicit Game(mad::Script& script) : script_(script) {
    stack_.send_connected_by([this](ipoib::ConnectionId, ByteSpan header, ByteSpan packet) {
      require(header.size() == ipoib::kHeaderBytes && packet.size() <= ipoib::kMaxConnectedMtu);
      return script_.next() % 2 == 0;
    });
  }

  void play() {
    for (unsigned moves = 0; !script_.is_over() && moves < kMostMoves; ++moves) {
      move();
      settle();
    }
    come_up();
    reach_a_neighbor();
    is_active_ = false;
    set_port();
    settle();
    require(!stack_.is_up() && stack_.attachments().size() <= 1'024);
    stack_.stop(now_);
    settle();
    require(stack_.attachments().empty() && stack_.sent_to().empty());
  }

 private:
  [[nodiscard]] static Gid gid_of(std::uint64_t number) {
    return {kDefaultGidPrefix, Guid{number}};
  }
  [[nodiscard]] sa::LocalPort port() const {
    sa::LocalPort port;
    port.lid = Lid{5};
    port.state = is_active_ ? verbs::PortState::Active : verbs::PortState::Down;
    port.sm_lid = kSaLid;
    port.gids = {gid_of(5)};
    port.pkeys = {kDefaultPKey};
    port.reregistrations = reregistrations_;
    return port;
  }
  void set_port() { stack_.set_port(port(), now_); }

  /// The last host is one that nobody speaks for.
  [[nodiscard]] static IpAddress address_of(bool is_v4, std::uint8_t host) {
    return is_v4 ? IpAddress::v4(0x0A4D'0000 + host) : IpAddress::v6(0xFD77'001B'0000'0000, host);
  }
  [[nodiscard]] IpAddress any_address(bool is_v4) {
    const std::uint8_t which = script_.next();
    switch (which % 8) {
      case 0:
        return is_v4 ? IpAddress::v4(0xE001'0200 + which)
                     : IpAddress::v6(0xFF02'0000'0000'0000, which);
      case 1:
        return is_v4 ? IpAddress::v4(0xFFFF'FFFF) : IpAddress::v6(0xFF02'0000'0000'0000, 1);
      default:
        return address_of(is_v4, which % 8U);
    }
  }
  [[nodiscard]] std::vector<std::byte> anything(std::size_t most) {
    std::vector<std::byte> octets(std::min<std::size_t>(script_.next(), most));
    std::ranges::generate(octets, [this] { return static_cast<std::byte>(script_.next()); });
    return octets;
  }

  void move() {
    switch (script_.next() % 12) {
      case 0:
        now_ = now_ + Duration::milliseconds(script_.next() * 4);
        return;
      case 1:
        is_active_ = !is_active_;
        return set_port();
      case 2:
        reregistrations_ = script_.next();
        return set_port();
      case 3:
        return answer_as_sa(true);
      case 4:
        return send_as_host();
      case 5:
        return stack_.transmit(anything(255), now_);
      case 6:
        return say_arp();
      case 7:
        return receive(anything(255));
      case 8:
        return stack_.handle_connected(1'000 + script_.next() % 8U, anything(255));
      case 9:
        return find_neighbor();
      case 10:
        return end_or_begin_connection();
      default:
        return set_addresses();
    }
  }

  void set_addresses() {
    const std::uint8_t host = script_.next() % 8U;
    stack_.set_addresses(
        {
            {address_of(true,          1),    16    },
            {address_of(host % 2 == 0, host), 64 / 2}
    },
        now_);
  }

  void find_neighbor() {
    const IpAddress address = address_of(script_.next() % 2 == 0, script_.next() % 8U);
    wanted_.insert(address);
    stack_.find_neighbor(address, now_ + Duration::milliseconds(script_.next() * 10), now_);
  }

  /// Now and then longer than a connection, or the link, takes.
  void send_as_host() {
    constexpr auto kLengths = std::to_array<std::size_t>({48, 100, 1280, 2044, 2045, 9000, 65'520});
    const bool is_v4 = script_.next() % 2 == 0;
    const std::size_t bytes = kLengths.at(script_.next() % kLengths.size());
    const auto packet = ipoib::testing::make_packet(address_of(is_v4, 1), any_address(is_v4), 7,
                                                    bytes, script_.next() % 2 == 0);
    const std::uint8_t checksum = script_.next();
    if (checksum == 0 || !stack_.transmit_partial(packet, {.start = 40, .at = checksum}, now_)) {
      stack_.transmit(packet, now_);
    }
  }

  /// The answer to the oldest request: a group or a path, with octets that are wrong if `is_odd`.
  void answer_as_sa(bool is_odd) {
    if (requests_.empty()) {
      return;
    }
    mad::MadBytes mad = requests_.front();
    requests_.pop_front();
    constexpr std::size_t kRecordAt = wire::kSizeOf<wire::SaHeader>;
    const auto header = wire::unpack<wire::SaHeader>(std::span{mad}.first<kRecordAt>());
    const std::span<std::byte> record = std::span{mad}.subspan(kRecordAt);
    if (header.header.attribute_id == static_cast<std::uint16_t>(wire::SaAttribute::PathRecord)) {
      auto path = *wire::parse<wire::PathRecord>(record);
      path.dlid = Lid{6};
      path.slid = Lid{5};
      copy_bytes(record, wire::pack(path));
    } else {
      auto group = *wire::parse<wire::McMemberRecord>(record);
      group.mlid = Lid{0xC000U + (std::to_integer<std::uint32_t>(group.mgid.octets()[15]) & 0xFF)};
      group.qkey = kLinkQKey;
      group.mtu = static_cast<std::uint8_t>(verbs::Mtu::Mtu2048);
      copy_bytes(record, wire::pack(group));
    }
    const bool is_set = header.header.method == wire::MadMethod::Set;  // answered by GetResp
    mad[3] = static_cast<std::byte>(is_set ? wire::MadMethod::Get : header.header.method) |
             std::byte{wire::kMethodResponseBit};
    for (unsigned changes = is_odd ? script_.next() % 4 : 0; changes != 0; --changes) {
      mad[script_.next()] = static_cast<std::byte>(script_.next());
    }
    stack_.handle_mad({.lid = kSaLid}, mad, now_);
  }

  void say_arp() {
    const bool asks = script_.next() % 2 == 0;
    const std::uint8_t host = script_.next() % 8U;
    receive(wire::to_payload(wire::ArpMessage{
        .operation = asks ? wire::ArpOperation::Request : wire::ArpOperation::Reply,
        .sender_hardware = {.flags = Flags<wire::IpoibFlag>::from_bits(script_.next()),
                            .qpn = Qpn{0x200U + host},
                            .gid = gid_of(host)},
        .sender = address_of(true, host),
        .target_hardware = {},
        .target = address_of(true, script_.next() % 8U)
    }));
  }

  void receive(ByteSpan payload) {
    const std::uint8_t how = script_.next();
    mad::ReceivedDatagram datagram{
        .destination_qp = kOwnQpn,
        .destination_gid = {},
        .source = {.lid = Lid{how},
                            .qp = Qpn{9},
                            .qkey = how % 16 == 0 ? QKey{} : kLinkQKey,
                            .pkey = kDefaultPKey},
        .payload = payload
    };
    if (how % 2 == 0) {
      datagram.destination_qp = kMulticastQpn;
      datagram.destination_gid = how % 4 == 0 ? wire::ipoib_broadcast_group(kDefaultPKey)
                                              : wire::ipoib_group(any_address(true), kDefaultPKey);
      datagram.source.global = mad::GlobalRoute{.dgid = gid_of(how % 8)};
    }
    stack_.handle_datagram(datagram, now_);
  }

  /// Of a peer: of one that takes partial checksums, or anything.
  std::vector<std::byte> private_data() {
    return script_.next() % 2 == 0
               ? ipoib::private_data_of({.qpn = Qpn{2}, .receive_mtu = 9000}, true)
               : anything(16);
  }

  void end_or_begin_connection() {
    ipoib::ConnectionTable& table = stack_.connections();
    const ipoib::ConnectionId id = script_.next() % 8U;
    switch (script_.next() % 5) {
      case 0:
        return table.established(id, private_data(), now_);
      case 1:
        return table.refused(id, now_);
      case 2:
        return stack_.connection_lost(id, now_);
      case 3:
        static_cast<void>(table.accept(1'000 + id, private_data()));
        return;
      default:
        return table.closed(1'000 + id);
    }
  }

  /// All that is due now.
  void settle() {
    for (unsigned turn = 0;; ++turn) {
      require(turn < kMostAtOnce);
      stack_.handle_timeout(now_);
      const bool has_sent = take_output();
      stack_.neighbors().neighbors().check_invariants();
      if (!has_sent && now_ < stack_.deadline()) {
        return;
      }
      if (!has_sent) {  // a deadline that handle_timeout() does not move would never end
        now_ = now_ + Duration::nanoseconds(1);
      }
    }
  }

  bool take_output() {
    bool has_any = false;
    while (const auto mad = stack_.poll_mad(now_)) {
      require(mad->address.lid == kSaLid);
      has_any = true;
      requests_.push_back(mad->bytes);
      if (requests_.size() > 64) {
        requests_.pop_front();
      }
    }
    while (const auto datagram = stack_.poll_datagram()) {
      require(datagram->source_qp == kOwnQpn && datagram->to.qkey == kQKeyOfQp);
      require(wire::parse<wire::IpoibEncapsulation>(datagram->payload).has_value());
      require(datagram->payload.size() <= 4'096);
      require(!datagram->to.lid.is_multicast() || datagram->to.global.has_value());
      sent_ = datagram->payload;
      has_any = true;
    }
    while (const auto packet = stack_.poll_delivery()) {
      require(ipoib::ends_of(*packet).has_value());
      has_any = true;
    }
    while (const auto found = stack_.poll_neighbor()) {
      require(wanted_.contains(found->address) && !found->gid.is_zero());
      has_any = true;
    }
    while (const auto action = stack_.connections().poll_action()) {
      require(action->kind != ConnectionAction::Kind::Send ||
              action->packet.size() <= ipoib::kMaxConnectedMtu + ipoib::kHeaderBytes);
      has_any = true;
    }
    return has_any;
  }

  /// With an SA that answers rightly at last: what has been said before costs no more than time.
  void come_up() {
    is_active_ = true;
    ++reregistrations_;
    set_port();
    for (int turn = 0; turn < 4'000 && !(stack_.is_up() && requests_.empty()); ++turn) {
      settle();
      answer_as_sa(false);
      now_ = now_ + Duration::milliseconds(50);
    }
    settle();
    require(stack_.is_up());
  }

  void reach_a_neighbor() {
    const IpAddress neighbor = address_of(true, 9);  // of whom nobody has spoken
    stack_.set_addresses(
        {
            {address_of(true, 1), 16}
    },
        now_);
    const auto packet = ipoib::testing::make_packet(address_of(true, 1), neighbor, 99);
    stack_.transmit(packet, now_);
    settle();
    mad::ReceivedDatagram answer{
        .destination_qp = kOwnQpn,
        .destination_gid = {},
        .source = {.lid = Lid{6}, .qp = Qpn{9}, .qkey = *stack_.qkey(), .pkey = kDefaultPKey},
        .payload = {}
    };
    const auto payload = wire::to_payload(wire::ArpMessage{
        .operation = wire::ArpOperation::Reply,
        .sender_hardware = {.flags = {}, .qpn = Qpn{9}, .gid = gid_of(9)},
        .sender = neighbor,
        .target_hardware = stack_.neighbors().hardware(),
        .target = address_of(true, 1)
    });
    answer.payload = payload;
    stack_.handle_datagram(answer, now_);
    for (int turn = 0; turn < 100 && !ends_with_packet(packet); ++turn) {
      settle();
      answer_as_sa(false);
    }
    require(ends_with_packet(packet));
  }
  [[nodiscard]] bool ends_with_packet(ByteSpan packet) const {
    return sent_.size() == packet.size() + ipoib::kHeaderBytes &&
           std::ranges::equal(ByteSpan{sent_}.subspan(ipoib::kHeaderBytes), packet);
  }

  mad::Script& script_;
  Instant now_{Duration::seconds(1)};
  bool is_active_{true};
  std::uint8_t reregistrations_{};
  IpoibStack stack_{
      {.qpn = kOwnQpn,
       .addresses = {{address_of(true, 1), 16}, {address_of(false, 1), 64}},
       .mode = ipoib::ConnectedMode::Both,
       .partial_checksums = true},
      port(),
      now_
  };
  std::deque<mad::MadBytes> requests_;
  std::set<IpAddress> wanted_;
  std::vector<std::byte> sent_;
};

}  // namespace
}  // namespace weft::programs::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  weft::programs::net::Game{script}.play();
  return 0;
}
