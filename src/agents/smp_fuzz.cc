// Hostile MADs on QP0 and QP1 of a fabric that a subnet manager has configured. Whatever they
// contain and wherever they come from, the tables must stay publishable, and a port with an M_Key
// must not change for senders that do not know it. In between, administrators and the kernel sides
// of hosts act: cables, settings and names of ports, datagrams, packets with wrong keys.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "agents/fabric_agents.h"
#include "base/bytes.h"
#include "base/testing/pieces.h"
#include "carriage/management_network.h"
#include "fabric/counter_source.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "verbs/mtu.h"
#include "wire/mad/smp.h"

namespace weft::agents {
namespace {

using fabric::PortIndex;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class CountingSink final : public carriage::MadSink, public carriage::DatagramSink {
 public:
  void deliver(PortIndex, mad::InterfaceKind kind, const mad::MadAddress& source,
               const mad::MadBytes& mad, Instant) override {
    ++delivered;
    if (kind == mad::InterfaceKind::Smi &&
        mad[kMethodAt] == std::byte{static_cast<std::uint8_t>(wire::MadMethod::Trap)}) {
      newest_trap = mad;
      trapped_by = source;
    }
  }
  void take(PortIndex, const mad::ReceivedDatagram&, Instant) override { ++delivered; }

  static constexpr std::size_t kMethodAt = 3;

  std::size_t delivered{};
  mad::MadBytes newest_trap{};
  mad::MadAddress trapped_by;
};

constexpr std::uint64_t kKey = 0x57E4'0C1D'9AB2'3365;
constexpr fuzz::PieceFormat kFormat{.head_octets = 3, .shortest = 1};
constexpr std::size_t kDataAt = 64;  // of SMPs and of PMA MADs

[[nodiscard]] const fabric::Topology& star() {
  static const fabric::Topology topology = *fabric::generate_star(2);
  return topology;
}

/// h1 and h2 on s1 with LIDs 1 to 3; h2 has an M_Key.
class Fabric {
 public:
  Fabric() {
    for (std::uint32_t i = 0; i < tables.ports().size(); ++i) {
      tables.set_state(PortIndex{i}, fabric::PortState::Active);
    }
    for (std::uint32_t i = 0; i < managed.size(); ++i) {
      tables.set_lid(managed[i], Lid{i + 1}, 0);
      tables.set_subnet_manager(managed[i], Lid{1}, {});
      const auto out = static_cast<std::uint8_t>(i == 2 ? 0 : i + 1);
      tables.set_forwarding(tables.port(managed[2]).node, Lid{i + 1}, PortNumber{out});
    }
    wire::PortInfo info = agents.port_info(managed[1]);
    info.mkey = kKey;
    info.mkey_protect_bits = 2;
    info.port_state = wire::LinkState::NoChange;
    info.physical_state = wire::PhysicalState::NoChange;
    send(0, mad::InterfaceKind::Smi,
         Lid{
             2
    },
         wire::pack(wire::SmpLidRouted{
             .header = {.mgmt_class = wire::ManagementClass::SubnLidRouted,
                        .method = wire::MadMethod::Set,
                        .attribute_id = static_cast<std::uint16_t>(wire::SmpAttribute::PortInfo)},
             .data = wire::pack(info)}));
    require(agents.port_info(managed[1]).mkey == kKey);
    tables.set_active_mtu(tables.port(managed[1]).peer, verbs::Mtu::Mtu2048);
    network.set_sink(&sink);
    for (const PortNumber out : {PortNumber{1}, PortNumber{2}}) {
      tables.set_multicast(tables.port(managed[2]).node, Lid{0xC0C0}, out, true);
    }
    static_cast<void>(agents.take_tables_changed());
  }

  /// Fills a Set with the attribute's current value under the changes it makes, so that most of it
  /// is valid. No effect if the Get is not answered.
  void fill_from_attribute(mad::InterfaceKind kind, Lid lid, mad::MadBytes& mad) {
    mad::MadBytes question = mad;
    question[kMethodAt] = std::byte{static_cast<std::uint8_t>(wire::MadMethod::Get)};
    const PortIndex at = managed[lid.value() % managed.size()];
    if (agents.handle(at, kind, question, now) == Outcome::Answered) {
      for (std::size_t i = kDataAt; i < mad.size(); ++i) {
        mad[i] ^= question[i];
      }
    }
  }

  static constexpr std::size_t kMethodAt = CountingSink::kMethodAt;

  void send(std::size_t from, mad::InterfaceKind kind, Lid lid, const mad::MadBytes& mad) {
    send(from, kind, {.address = {.lid = lid}, .bytes = mad});
  }
  void send(std::size_t from, mad::InterfaceKind kind, const mad::MadPacket& packet) {
    network.send(managed[from], kind, packet);
    run();
  }
  void run() {
    const std::size_t before = sink.delivered;
    constexpr std::size_t kMost = 64;  // the MAD, its response, and traps that it causes
    ++under_way;
    std::size_t turns = 0;
    while (network.run(kMost, now)) {
      require(++turns < 4 * under_way);
    }
    require(network.deadline() > now);
    require(sink.delivered - before <= kMost * under_way);
    if (network.deadline() == Instant::never()) {
      under_way = 0;
    }
  }

  Instant now;
  std::size_t under_way{};  // upper bound of MADs in flight since links were idle: slow links may
                            // delay many
  fabric::TablesBuilder tables{star()};
  std::array<PortIndex, 3> managed{tables.nodes()[0].first_port, tables.nodes()[1].first_port,
                                   tables.nodes()[2].first_port};
  fabric::PlainCounters counters;
  FabricAgents agents{tables, counters};
  CountingSink sink;
  carriage::ManagementNetwork network{tables, agents, sink, {.counters = &counters}};
};

/// State that must not change without the key. The other end of the cable is not protected, so the
/// link's state and negotiated speed may change.
struct Protected {
  std::uint64_t mkey{};
  std::uint8_t protect_bits{};
  Lid lid;
  Lid sm_lid;
  std::size_t pkeys{};
  std::size_t gids{};
  bool operator==(const Protected&) const = default;
};

[[nodiscard]] Protected protected_part(const Fabric& fabric) {
  const PortIndex h2 = fabric.managed[1];
  const wire::PortInfo info = fabric.agents.port_info(h2);
  return {.mkey = info.mkey,
          .protect_bits = info.mkey_protect_bits,
          .lid = info.lid,
          .sm_lid = info.master_sm_lid,
          .pkeys = fabric.tables.pkeys(h2).size(),
          .gids = fabric.tables.gids(h2).size()};
}

/// Values of a piece's second octet from here on are no LID, but an event.
enum class Happening : std::uint8_t {
  First = 0xE0,
  IsSm = First,
  Name,
  Settings,
  Cable,
  Datagram,
  Address,  // a MAD whose first octets are its address: LID, QP, keys
  Repress,  // of the last trap
  Last = Repress,
};

/// The content of a piece, octet by octet, followed by zeros.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> octets) : octets_(octets) {}
  [[nodiscard]] std::uint8_t take() {
    const std::uint8_t octet = octets_.empty() ? std::uint8_t{0} : octets_.front();
    octets_ = octets_.subspan(octets_.empty() ? 0 : 1);
    return octet;
  }
  [[nodiscard]] std::uint32_t take_three() {
    const std::uint32_t high = take();
    const std::uint32_t middle = take();
    return high << 16 | middle << 8 | take();
  }
  [[nodiscard]] std::span<const std::uint8_t> rest() const { return octets_; }

 private:
  std::span<const std::uint8_t> octets_;
};

/// Reads LID, QP, and which keys are wrong.
[[nodiscard]] mad::MadAddress taken_address(Script& script) {
  mad::MadAddress address{.lid = Lid{script.take()}};
  address.lid = address.lid.value() >= 0xC0 ? Lid{0xC000 + address.lid.value()} : address.lid;
  address.qp = Qpn{script.take()};
  const std::uint8_t wrong = script.take();
  address.qkey = (wrong & 1) != 0 ? QKey{wrong} : kGsiQKey;
  address.pkey = (wrong & 2) != 0 ? PKey{wrong} : kDefaultPKey;
  address.sl = ServiceLevel{static_cast<std::uint8_t>(script.take() & 0xF)};
  address.path_bits = script.take();
  if (const std::uint8_t hop_limit = script.take(); hop_limit != 0) {
    address.global = mad::GlobalRoute{};
  }
  return address;
}

/// True for a MAD that holds the M_Key, by chance.
[[nodiscard]] bool has_key(const mad::MadBytes& mad) {
  return wire::unpack<wire::SmpRoute>(
             std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>())
             .mkey == kKey;
}

void happen(Fabric& fabric, Happening what, std::uint8_t who, const fuzz::Octets& message) {
  Script script{message};
  const std::size_t from = who % fabric.managed.size();
  const auto any_port = [&] {
    return PortIndex{static_cast<std::uint32_t>(script.take() % fabric.tables.ports().size())};
  };
  switch (what) {
    case Happening::IsSm:
      fabric.agents.set_is_sm(any_port(), script.take() % 2 != 0, fabric.now);
      break;
    case Happening::Name: {
      const PortIndex port = any_port();
      const std::string text{script.rest().begin(), script.rest().end()};
      static_cast<void>(fabric.agents.set_node_description(port, text, fabric.now));
      break;
    }
    case Happening::Settings: {
      const PortIndex port = any_port();
      const PortSettings settings{
          .state = static_cast<wire::LinkState>(script.take() % 6),
          .physical = static_cast<wire::PhysicalState>(script.take() % 4),
          .width_enabled = script.take(),
          .speed_enabled = static_cast<std::uint8_t>(script.take() & 0xF),
          .extended_enabled = static_cast<std::uint8_t>(script.take() & 0x1F)};
      static_cast<void>(fabric.agents.configure(port, settings, fabric.now));
      break;
    }
    case Happening::Cable: {
      const PortIndex port = any_port();
      fabric.agents.set_plugged(port, script.take() % 2 != 0, fabric.now);
      break;
    }
    case Happening::Datagram: {
      mad::Datagram datagram{.source_qp = Qpn{script.take_three()}, .to = taken_address(script)};
      const std::size_t times = script.take() % 4 == 0 ? 40 : 1;  // longer than an MTU
      for (std::size_t i = 0; i < times; ++i) {
        const auto part = std::as_bytes(script.rest());
        datagram.payload.insert(datagram.payload.end(), part.begin(), part.end());
      }
      fabric.network.send(fabric.managed[from % 2], std::move(datagram));
      break;
    }
    case Happening::Address: {
      mad::MadPacket packet{.address = taken_address(script)};
      copy_bytes(packet.bytes, std::as_bytes(script.rest()));
      if (!has_key(packet.bytes)) {
        const bool is_gsi = packet.address.qp != kQp0;
        fabric.network.send(fabric.managed[from],
                            is_gsi ? mad::InterfaceKind::Gsi : mad::InterfaceKind::Smi, packet);
      }
      break;
    }
    case Happening::Repress: {
      mad::MadPacket packet{.address = fabric.sink.trapped_by, .bytes = fabric.sink.newest_trap};
      packet.bytes[Fabric::kMethodAt] =
          std::byte{static_cast<std::uint8_t>(wire::MadMethod::TrapRepress)};
      packet.bytes.back() = std::byte{script.take()};
      fabric.network.send(fabric.managed[from], mad::InterfaceKind::Smi, packet);
      break;
    }
  }
  fabric.run();
}

/// Bits of the first octet of a piece, besides the sender.
constexpr std::uint8_t kOnQp1 = 0x80;
constexpr std::uint8_t kChanges = 0x40;  // its data is a change to the attribute's current value
constexpr std::uint8_t kTimePasses = 0x30;

void run(std::span<const std::uint8_t> input) {
  constexpr std::array kPauses = {Duration{}, Duration::microseconds(10),
                                  Duration::milliseconds(20), Duration::seconds(30)};
  Fabric fabric;
  const Protected before = protected_part(fabric);
  for (const fuzz::Piece& piece : fuzz::split(input, kFormat)) {
    const std::uint8_t who = piece.head[0];
    if (piece.head[1] >= static_cast<std::uint8_t>(Happening::First) &&
        piece.head[1] <= static_cast<std::uint8_t>(Happening::Last)) {
      fabric.now = fabric.now + kPauses.at((who & kTimePasses) / 0x10);
      happen(fabric, static_cast<Happening>(piece.head[1]), who, piece.message);
      continue;
    }
    const Lid where = piece.head[1] == 0xFF ? kPermissiveLid : Lid{piece.head[1]};
    const auto kind = (who & kOnQp1) != 0 ? mad::InterfaceKind::Gsi : mad::InterfaceKind::Smi;
    mad::MadBytes mad{};
    copy_bytes(mad, std::as_bytes(std::span{piece.message}));
    fabric.now = fabric.now + kPauses.at((who & kTimePasses) / 0x10);
    if ((who & kChanges) != 0) {
      fabric.fill_from_attribute(kind, where, mad);
    }
    if (!has_key(mad)) {
      fabric.send(who % 3, kind, where, mad);
    }
  }
  require(protected_part(fabric) == before);
  if (fabric.agents.take_tables_changed()) {
    const auto image = fabric.tables.build(1);
    require(fabric::TablesView::open(image).has_value());
  }
}

/// Generates an event other than a MAD.
[[nodiscard]] fuzz::Piece make_happening(Random& random) {
  const auto octet = [&](std::uint64_t bound) {
    return static_cast<std::uint8_t>(random.below(bound));
  };
  constexpr auto kFirst = static_cast<std::uint8_t>(Happening::First);
  constexpr auto kCount = static_cast<std::uint8_t>(Happening::Last) - kFirst + 1;
  const auto what = static_cast<std::uint8_t>(kFirst + octet(kCount));
  fuzz::Piece piece{
      .head = {octet(3), what},
        .message = {}
  };
  if (random.chance(1, 4)) {
    piece.head[0] = static_cast<std::uint8_t>(piece.head[0] + octet(4) * 0x10);
  }
  if (what == static_cast<std::uint8_t>(Happening::Datagram)) {
    piece.message = {0, 0, octet(4)};
  }
  const bool goes_somewhere = what == static_cast<std::uint8_t>(Happening::Datagram) ||
                              what == static_cast<std::uint8_t>(Happening::Address);
  if (goes_somewhere) {
    constexpr std::array<std::uint8_t, 8> kPlaces = {1, 2, 2, 2, 3, 9, 0xC0, 0xFF};
    piece.message.push_back(kPlaces.at(random.below(kPlaces.size())));
    piece.message.insert(piece.message.end(), {octet(3), octet(4), octet(2), 0, octet(2)});
  } else {
    constexpr std::array<std::uint8_t, 6> kSettings = {0, 1, 2, 3, 4, 5};
    for (int i = 0; i < 6; ++i) {
      piece.message.push_back(kSettings.at(random.below(kSettings.size())));
    }
  }
  piece.message.resize(piece.message.size() + octet(100));
  return piece;
}

/// Generates a MAD that its receiver understands: a Get, or a Set that changes a bit or two.
[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  if (random.chance(1, 3)) {
    return make_happening(random);
  }
  constexpr std::array<std::uint8_t, 18> kAttributes = {0x10, 0x11, 0x12, 0x14, 0x15, 0x15,
                                                        0x15, 0x16, 0x17, 0x18, 0x19, 0x1B,
                                                        0x20, 0x30, 0x31, 0x33, 0x12, 0x02};
  constexpr std::array<std::uint8_t, 12> kPerformance = {0x01, 0x10, 0x10, 0x11, 0x12, 0x1D,
                                                         0x1E, 0x15, 0x16, 0x36, 0x37, 0x17};
  constexpr std::array<std::uint8_t, 8> kMethods = {1, 1, 1, 2, 2, 2, 7, 0x1A};
  constexpr std::size_t kModifierAt = 20;
  const std::size_t kind = random.below(3);
  const auto octet = [&](std::uint64_t bound) {
    return static_cast<std::uint8_t>(random.below(bound));
  };
  fuzz::Octets mad(wire::kMadBytes);
  constexpr std::array<std::uint8_t, 3> kClasses = {0x01, 0x81, 0x04};
  mad[0] = 1;
  mad[1] = kClasses.at(kind);
  mad[2] = 1;
  mad[3] = kMethods.at(random.below(kMethods.size()));
  mad[17] = kind == 2 ? kPerformance.at(random.below(kPerformance.size()))
                      : kAttributes.at(random.below(kAttributes.size()));
  mad[kModifierAt + random.below(4)] = octet(4);
  for (std::uint64_t changes = random.below(4); changes != 0; --changes) {
    mad[kDataAt + random.below(random.chance(1, 2) ? 64 : 192)] ^=
        static_cast<std::uint8_t>(1U << octet(8));
  }
  constexpr std::uint8_t kSamplesControl = 0x10;
  if (kind == 2 && mad[17] == kSamplesControl) {  // finishes soon, with counters that exist
    constexpr std::size_t kIntervalAt = kDataAt + 35;
    constexpr std::size_t kSelectsAt = kDataAt + 38;
    mad[kIntervalAt] = octet(20);
    for (std::size_t i = 0; i < 6; ++i) {
      mad[kSelectsAt + 2 * i + 1] = octet(7);
    }
  }
  if (kind == 1) {  // a directed route with no hop or over the switch
    constexpr std::size_t kLidsAt = 32;
    constexpr std::size_t kPathAt = 128;
    std::fill_n(mad.begin() + kLidsAt, 4, std::uint8_t{0xFF});
    mad[7] = octet(4);
    mad[kPathAt + 1] = 1;
    mad[kPathAt + 2] = octet(4);
  }
  unsigned who = octet(3) + (kind == 2 ? kOnQp1 : 0U);
  who |= random.chance(3, 4) ? kChanges : 0U;
  who |= random.chance(1, 4) ? octet(4) * 0x10U : 0U;
  const std::size_t length = kind == 1 ? 132 : kDataAt + (random.chance(3, 4) ? 64 : 192);
  mad.resize(length);
  fuzz::Piece piece{.head = {}, .message = std::move(mad)};
  piece.head.push_back(static_cast<std::uint8_t>(who));
  piece.head.push_back(kind == 1 ? std::uint8_t{0xFF} : static_cast<std::uint8_t>(1 + octet(3)));
  return piece;
}

}  // namespace
}  // namespace weft::agents

/// The input is a sequence of pieces. Each has an octet for sender, QP and time, one for the
/// destination LID (255: permissive; from 0xE0: another event) and one for how many octets of the
/// MAD follow; the rest is zero.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::agents::run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::agents::kFormat,
                                   weft::agents::make_piece);
}
