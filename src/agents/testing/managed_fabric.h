#pragma once

// For tests: a fabric with its agents and management network, and a client that sends MADs from any
// port.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "agents/fabric_agents.h"
#include "carriage/management_network.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/smp.h"

namespace weft::agents::testing {

using fabric::PortIndex;

/// A MAD that arrived at a port and was not handled by the agents.
struct Delivered {
  PortIndex at;
  mad::InterfaceKind kind{};
  mad::MadAddress source{};
  mad::MadBytes mad{};

  [[nodiscard]] wire::MadHeader header() const {
    return wire::unpack<wire::MadHeader>(std::span{mad}.first<24>());
  }
  [[nodiscard]] std::uint16_t status() const { return header().status & 0x7FFF; }
  template <class T>
  [[nodiscard]] T data() const {
    return wire::unpack<T>(std::span{mad}.template subspan<wire::kSmpDataAt, wire::kSizeOf<T>>());
  }
  [[nodiscard]] wire::SmpDirectedHeader directed() const {
    return wire::unpack<wire::SmpDirectedHeader>(std::span{mad}.first<24>());
  }
};

/// The variable parts of a request.
struct Ask {
  wire::SmpAttribute attribute{};
  std::uint32_t modifier{};
  std::uint64_t mkey{};
  wire::MadMethod method{wire::MadMethod::Get};
  std::uint64_t transaction_id{7};
};

using carriage::CableOptions;
using carriage::MadSink;
using carriage::ManagementNetwork;

/// A fabric whose MADs are delivered by run().
class ManagedFabric final : public MadSink {
 public:
  /// With `faults`, fault rules apply to MADs, which then count at the ports they cross and queue
  /// on links with a rate.
  explicit ManagedFabric(const fabric::Topology& topology,
                         std::optional<fabric::FaultCounters> faults = {})
      : topology_(topology),
        tables(topology_),
        agents(tables, counters),
        network(tables, agents, *this,
                faults ? CableOptions{.counters = &counters, .faults = *faults, .clocks = clocks}
                       : CableOptions{}) {}

  void deliver(PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
               const mad::MadBytes& mad, Instant /*now*/) override {
    delivered.push_back({.at = at, .kind = kind, .source = source, .mad = mad});
  }

  /// A port by node name and number, as in h1's port 1 or s1's port 0.
  [[nodiscard]] PortIndex port(std::string_view node, int number) const {
    for (std::size_t i = 0; i < tables.ports().size(); ++i) {
      const fabric::PortRecord& record = tables.ports()[i];
      if (tables.name(tables.node(record.node)) == node && record.number.value() == number) {
        return PortIndex{static_cast<std::uint32_t>(i)};
      }
    }
    ADD_FAILURE() << "no port " << node << ":" << number;
    return fabric::kNoPort;
  }
  [[nodiscard]] fabric::NodeIndex node(std::string_view name) const {
    return tables.port(port(name, name.front() == 's' ? 0 : 1)).node;
  }

  void run() {
    while (network.run(100, now)) {
    }
  }

  [[nodiscard]] static mad::MadBytes directed(const Ask& ask,
                                              std::initializer_list<std::uint8_t> path) {
    wire::SmpDirected smp{
        .header = {.method = ask.method,
                   .hop_count = static_cast<std::uint8_t>(path.size()),
                   .transaction_id = ask.transaction_id,
                   .attribute_id = static_cast<std::uint16_t>(ask.attribute),
                   .attribute_modifier = ask.modifier},
        .mkey = ask.mkey,
        .dr_slid = kPermissiveLid,
        .dr_dlid = kPermissiveLid
    };
    std::size_t at = 1;
    for (const std::uint8_t hop : path) {
      smp.initial_path[at++] = std::byte{hop};
    }
    return wire::pack(smp);
  }

  [[nodiscard]] static mad::MadBytes routed(const Ask& ask) {
    return wire::pack(wire::SmpLidRouted{
        .header = {.mgmt_class = wire::ManagementClass::SubnLidRouted,
                   .method = ask.method,
                   .transaction_id = ask.transaction_id,
                   .attribute_id = static_cast<std::uint16_t>(ask.attribute),
                   .attribute_modifier = ask.modifier},
        .mkey = ask.mkey
    });
  }

  template <class T>
  static mad::MadBytes with(mad::MadBytes mad, const T& value) {
    wire::pack(value, std::span{mad}.template subspan<wire::kSmpDataAt, wire::kSizeOf<T>>());
    return mad;
  }

  /// Sends a MAD and returns the response that `from` receives, if any.
  std::optional<Delivered> send(PortIndex from, const mad::MadBytes& mad,
                                Lid lid = kPermissiveLid) {
    delivered.clear();
    network.send(from, mad::InterfaceKind::Smi,
                 {
                     .address = {.lid = lid, .qp = kQp0},
                       .bytes = mad
    });
    run();
    for (const Delivered& each : delivered) {
      if (each.at == from && each.header().method == wire::MadMethod::GetResp) {
        return each;
      }
    }
    return std::nullopt;
  }

  std::optional<Delivered> ask(PortIndex from, const Ask& request,
                               std::initializer_list<std::uint8_t> path) {
    return send(from, directed(request, path));
  }
  template <class T>
  std::optional<Delivered> set(PortIndex from, Ask request,
                               std::initializer_list<std::uint8_t> path, const T& value) {
    request.method = wire::MadMethod::Set;
    return send(from, with(directed(request, path), value));
  }
  [[nodiscard]] wire::PortInfo port_info(PortIndex from, std::initializer_list<std::uint8_t> path,
                                         std::uint32_t number, std::uint64_t mkey = 0) {
    const auto answer = ask(
        from, {.attribute = wire::SmpAttribute::PortInfo, .modifier = number, .mkey = mkey}, path);
    EXPECT_TRUE(answer);
    return answer ? answer->data<wire::PortInfo>() : wire::PortInfo{};
  }

  /// Sets a port's LID, SM LID and state directly in the tables, as a subnet manager would by SMPs.
  void manage(PortIndex at, Lid lid, Lid sm_lid,
              fabric::PortState state = fabric::PortState::Active) {
    tables.set_lid(at, lid, 0);
    tables.set_subnet_manager(at, sm_lid, {});
    tables.set_state(at, state);
  }

  /// h1, h2 and s1 get LIDs 1, 2 and 3, as from a subnet manager on h1.
  void manage_star() {
    manage(port("h1", 1), Lid{1}, Lid{1});
    manage(port("h2", 1), Lid{2}, Lid{1});
    manage(port("s1", 0), Lid{3}, Lid{1});
    for (const int number : {1, 2}) {
      tables.set_state(port("s1", number), fabric::PortState::Active);
      tables.set_forwarding(node("s1"), Lid{static_cast<std::uint32_t>(number)},
                            PortNumber{static_cast<std::uint8_t>(number)});
    }
    tables.set_forwarding(node("s1"), Lid{3}, PortNumber{0});
  }

 private:
  fabric::Topology topology_;

 public:
  fabric::TablesBuilder tables;
  fabric::PlainCounters counters;

 private:
  struct alignas(64) ClockLine {
    std::byte bytes[64]{};
  };
  std::vector<ClockLine> clock_memory_ = std::vector<ClockLine>(
      fabric::DepartureClocks::bytes_needed(tables.ports().size()) / sizeof(ClockLine));

 public:
  fabric::DepartureClocks clocks =
      fabric::DepartureClocks::open(std::as_writable_bytes(std::span<ClockLine>{clock_memory_}));
  FabricAgents agents;
  ManagementNetwork network;
  std::vector<Delivered> delivered;
  Instant now;
};

[[nodiscard]] inline fabric::Topology star() { return *fabric::generate_star(2); }

}  // namespace weft::agents::testing
