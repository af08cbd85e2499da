#pragma once

// For tests: a fabric with LIDs and routes, and its image.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "fabric/path.h"
#include "fabric/tables.h"
#include "fabric/testing/test_routes.h"
#include "fabric/topology.h"

namespace weft::fabric::testing {

class RunningFabric {
 public:
  explicit RunningFabric(const Topology& topology) : builder(topology), manager(builder) {
    const auto up = manager.bring_up();
    EXPECT_TRUE(up) << up.error().reason;
    publish();
  }

  void publish() { image_ = builder.build(++generation_); }

  [[nodiscard]] TablesView view() const {
    auto opened = TablesView::open(image_);
    EXPECT_TRUE(opened) << opened.error().reason;
    return *opened;
  }

  [[nodiscard]] PortIndex port(std::string_view node, int number, std::uint32_t hca = 0) const {
    const TablesView tables = view();
    const auto found = tables.find_node(node);
    EXPECT_TRUE(found) << node;
    const auto index = tables.find_port(*found, PortNumber{static_cast<std::uint8_t>(number)}, hca);
    EXPECT_TRUE(index) << node << ":" << number;
    return *index;
  }

  [[nodiscard]] Lid lid(std::string_view node, int number = 1, std::uint32_t hca = 0) const {
    return builder.port(port(node, number, hca)).lid;
  }

  [[nodiscard]] NodeIndex node(std::string_view name) const { return *view().find_node(name); }

  [[nodiscard]] std::vector<PortIndex> hca_ports() const {
    std::vector<PortIndex> found;
    for (std::size_t i = 0; i < builder.ports().size(); ++i) {
      if (!builder.ports()[i].is_switch_port() && builder.ports()[i].peer != kNoPort) {
        found.push_back(PortIndex{static_cast<std::uint32_t>(i)});
      }
    }
    return found;
  }

  TablesBuilder builder;
  TestRoutes manager;

 private:
  std::uint64_t generation_{};
  std::vector<std::byte> image_;
};

/// Two hosts on switch s1: h1 with two HCAs of two ports, all cabled, and h2 with LMC 2.
inline Topology many_ports() {
  Topology topology;
  topology.hosts = {make_host("h1", 2, 2), make_host("h2")};
  topology.hosts[1].hcas[0].ports[0].lmc = 2;
  topology.switches = {
      {"s1", 6}
  };
  const auto host_end = [](std::uint32_t host, std::uint8_t hca, std::uint8_t port) {
    return EndPoint{NodeKind::Host, host, hca, PortNumber{port}};
  };
  const auto switch_end = [](std::uint8_t port) {
    return EndPoint{NodeKind::Switch, 0, 0, PortNumber{port}};
  };
  topology.links = {
      {host_end(0, 0, 1), switch_end(1), std::nullopt, {}},
      {host_end(0, 0, 2), switch_end(2), std::nullopt, {}},
      {host_end(0, 1, 1), switch_end(3), std::nullopt, {}},
      {host_end(0, 1, 2), switch_end(4), std::nullopt, {}},
      {host_end(1, 0, 1), switch_end(5), std::nullopt, {}},
  };
  return topology;
}

}  // namespace weft::fabric::testing
