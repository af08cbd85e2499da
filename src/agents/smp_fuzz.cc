// Foreign MADs on QP0 and QP1 of a fabric that a subnet manager has set up: whatever they claim to
// be and wherever they come from, the tables stay such that they can be published, and a port under
// an M_Key stays as it is for who does not know it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "agents/counter_source.h"
#include "agents/fabric_agents.h"
#include "agents/management_network.h"
#include "base/bytes.h"
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
  }

  void send(std::size_t from, mad::InterfaceKind kind, Lid lid, const mad::MadBytes& mad) {
    network.send(managed[from], kind, {.address = {.lid = lid}, .bytes = mad});
    const std::size_t before = sink.delivered;
    constexpr std::size_t kMost = 64;  // the MAD, its answer, and traps that it causes
    int turns = 0;
    while (network.run(kMost, Instant{})) {
      require(++turns < 4);
    }
    require(sink.delivered - before <= kMost);
  }

  fabric::TablesBuilder tables{*fabric::generate_star(2)};
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

void run(ByteSpan rest) {
  constexpr std::size_t kHead = 3;
  Fabric fabric;
  const Protected before = protected_part(fabric);
  while (rest.size() > kHead) {
    const auto who = std::to_integer<std::size_t>(rest[0]);
    const auto where = std::to_integer<std::uint32_t>(rest[1]);
    const std::size_t length =
        std::min(rest.size() - kHead, std::to_integer<std::size_t>(rest[2]) + 1);
    mad::MadBytes mad{};
    copy_bytes(mad, rest.subspan(kHead, length));
    rest = rest.subspan(kHead + length);
    const auto route = wire::unpack<wire::SmpRoute>(
        std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>());
    if (route.mkey == kKey) {
      continue;
    }
    fabric.send(who % 3, (who & 0x80) != 0 ? mad::InterfaceKind::Gsi : mad::InterfaceKind::Smi,
                where == 0xFF ? kPermissiveLid : Lid{where}, mad);
  }
  require(protected_part(fabric) == before);
  const auto image = fabric.tables.build(1);
  require(fabric::TablesView::open(image).has_value());
}

}  // namespace
}  // namespace weft::agents

/// Of each MAD: a byte for who sends it on which QP, one for the LID that it goes to (255: the
/// permissive one), one for how many bytes of it follow; the rest is zero.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::agents::run(std::as_bytes(std::span{data, size}));
  return 0;
}
