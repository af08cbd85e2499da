// Foreign MADs on QP0 and QP1 of a fabric that a subnet manager has set up: whatever they claim to
// be and wherever they come from, the tables stay such that they can be published, and a port under
// an M_Key stays as it is for who does not know it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "agents/counter_source.h"
#include "agents/fabric_agents.h"
#include "agents/management_network.h"
#include "base/bytes.h"
#include "base/testing/pieces.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "wire/mad/smp.h"

namespace weft::agents {
namespace {

using fabric::PortIndex;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class CountingSink final : public MadSink {
 public:
  void deliver(PortIndex, mad::InterfaceKind, const mad::MadAddress&, const mad::MadBytes&,
               Instant) override {
    ++delivered;
  }
  std::size_t delivered{};
};

constexpr std::uint64_t kKey = 0x57E4'0C1D'9AB2'3365;
constexpr fuzz::PieceFormat kFormat{.head_octets = 3, .shortest = 1};
constexpr std::size_t kDataAt = 64;  // of SMPs and of PMA's

[[nodiscard]] const fabric::Topology& star() {
  static const fabric::Topology topology = *fabric::generate_star(2);
  return topology;
}

/// h1 and h2 on s1, LIDs 1 to 3; h2 is under an M_Key.
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
    static_cast<void>(agents.take_tables_changed());
  }

  /// Puts what an attribute has now under the changes that a Set says, so that most of it is
  /// right. Nothing if there is no answer.
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

  static constexpr std::size_t kMethodAt = 3;

  void send(std::size_t from, mad::InterfaceKind kind, Lid lid, const mad::MadBytes& mad) {
    network.send(managed[from], kind, {.address = {.lid = lid}, .bytes = mad});
    const std::size_t before = sink.delivered;
    constexpr std::size_t kMost = 64;  // the MAD, its answer, and traps that it causes
    int turns = 0;
    while (network.run(kMost, now)) {
      require(++turns < 4);
    }
    require(sink.delivered - before <= kMost);
  }

  Instant now;
  fabric::TablesBuilder tables{star()};
  std::array<PortIndex, 3> managed{tables.nodes()[0].first_port, tables.nodes()[1].first_port,
                                   tables.nodes()[2].first_port};
  PlainCounters counters;
  FabricAgents agents{tables, counters};
  CountingSink sink;
  ManagementNetwork network{tables, agents, sink};
};

/// What nobody may change without the key. The other end of its cable is not under it, so its state
/// and what is negotiated may change.
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

/// Of the first octet of a piece: who sends, and these.
constexpr std::uint8_t kOnQp1 = 0x80;
constexpr std::uint8_t kChanges = 0x40;  // its data is a change of what the attribute has
constexpr std::uint8_t kTimePasses = 0x30;

void run(std::span<const std::uint8_t> input) {
  constexpr std::array kPauses = {Duration{}, Duration::microseconds(10),
                                  Duration::milliseconds(20), Duration::seconds(30)};
  Fabric fabric;
  const Protected before = protected_part(fabric);
  for (const fuzz::Piece& piece : fuzz::split(input, kFormat)) {
    const std::uint8_t who = piece.head[0];
    const Lid where = piece.head[1] == 0xFF ? kPermissiveLid : Lid{piece.head[1]};
    const auto kind = (who & kOnQp1) != 0 ? mad::InterfaceKind::Gsi : mad::InterfaceKind::Smi;
    mad::MadBytes mad{};
    copy_bytes(mad, std::as_bytes(std::span{piece.message}));
    fabric.now = fabric.now + kPauses.at((who & kTimePasses) / 0x10);
    if ((who & kChanges) != 0) {
      fabric.fill_from_attribute(kind, where, mad);
    }
    const auto route = wire::unpack<wire::SmpRoute>(
        std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>());
    if (route.mkey != kKey) {
      fabric.send(who % 3, kind, where, mad);
    }
  }
  require(protected_part(fabric) == before);
  if (fabric.agents.take_tables_changed()) {
    const auto image = fabric.tables.build(1);
    require(fabric::TablesView::open(image).has_value());
  }
}

/// A MAD that its receiver understands: a Get, or a Set that changes a bit or two.
[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  constexpr std::array<std::uint8_t, 17> kAttributes = {0x10, 0x11, 0x12, 0x14, 0x15, 0x15,
                                                        0x15, 0x16, 0x17, 0x18, 0x19, 0x1B,
                                                        0x20, 0x30, 0x31, 0x12, 0x02};
  constexpr std::array<std::uint8_t, 8> kPerformance = {0x01, 0x10, 0x10, 0x11,
                                                        0x12, 0x1D, 0x1E, 0x15};
  constexpr std::array<std::uint8_t, 6> kMethods = {1, 1, 2, 2, 2, 7};
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
  if (kind == 1) {  // a directed route, of no hops or over the switch
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

/// Of each MAD: an octet for who sends it on which QP and when, one for the LID that it goes to
/// (255: the permissive one), one for how many octets of it follow; the rest is zero.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::agents::run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::agents::kFormat,
                                   weft::agents::make_piece);
}
