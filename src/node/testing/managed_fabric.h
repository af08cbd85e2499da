#pragma once

// A fabric with its management plane and subnet managers, in virtual time, for tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/path.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "node/management_plane.h"
#include "node/subnet_services.h"
#include "subnet/subnet_manager.h"

namespace weft::node::testing {

class ManagedFabric {
 public:
  explicit ManagedFabric(const fabric::Topology& topology, fabric::FaultCounters faults = {})
      : builder(topology), plane(builder, {.time_scale = {}, .faults = faults}) {}

  fabric::TablesBuilder builder;
  ManagementPlane plane;
  Instant now{Duration::seconds(1)};

  /// A manager at a host's first port, or a switch's port 0.
  subnet::SubnetManager& add_manager(const std::string& node,
                                     subnet::SubnetManagerOptions options = {},
                                     subnet::SubnetObserver* observer = nullptr) {
    const fabric::PortIndex at = port(node, node.front() == 's' ? 0 : 1);
    plane.agents().set_is_sm(at, true, now);
    managers_.push_back({at, std::make_unique<subnet::SubnetManager>(
                                 plane.port(at).smi(), std::move(options), observer)});
    EXPECT_TRUE(managers_.back().manager->start(now).has_value());
    plane.wake(at);
    return *managers_.back().manager;
  }

  /// A manager with its SA, at a host's first port.
  SubnetServices& add_services(const std::string& host, subnet::SubnetManagerOptions options = {}) {
    const fabric::PortIndex at = port(host, 1);
    plane.agents().set_is_sm(at, true, now);
    services_.push_back({at, std::make_unique<SubnetServices>(plane.port(at), std::move(options))});
    EXPECT_TRUE(services_.back().services->start(now).has_value());
    plane.wake(at);
    return *services_.back().services;
  }

  /// Removes a manager as if it was killed: it does not answer any more.
  void remove_manager(const std::string& node) {
    const fabric::PortIndex at = port(node, node.front() == 's' ? 0 : 1);
    std::erase_if(managers_, [&](const Placed& placed) { return placed.at == at; });
    plane.agents().set_is_sm(at, false, now);
  }

  /// Runs MADs and time until nothing is pending for a while, or for `span`.
  void run_for(Duration span) {
    const Instant end = now + span;
    while (true) {
      while (plane.run(now)) {
      }
      Instant next = plane.deadline();
      for (const Placed& placed : managers_) {
        next = std::min(next, placed.manager->deadline());
      }
      for (const PlacedServices& placed : services_) {
        next = std::min(next, placed.services->deadline());
      }
      if (next > end) {
        break;
      }
      now = std::max(now, next);
      for (const Placed& placed : managers_) {
        if (placed.manager->deadline() <= now) {
          placed.manager->handle_timeout(now);
          plane.wake(placed.at);
        }
      }
      for (const PlacedServices& placed : services_) {
        if (placed.services->deadline() <= now) {
          placed.services->handle_timeout(now);
          plane.wake(placed.at);
        }
      }
    }
    now = end;
  }

  void settle() { run_for(Duration::seconds(3)); }

  /// As run_for(), with a duration for each run of the plane, so that events arrive while managers
  /// are busy.
  void run_slowly(Duration span, Duration turn) {
    for (const Instant end = now + span; now < end; now = now + turn) {
      for (const Placed& placed : managers_) {
        if (placed.manager->deadline() <= now) {
          placed.manager->handle_timeout(now);
          plane.wake(placed.at);
        }
      }
      static_cast<void>(plane.run(now));
    }
  }

  [[nodiscard]] fabric::PortIndex port(const std::string& node, std::uint8_t number) const {
    const std::vector<std::byte> image = builder.build(1);
    const auto view = fabric::TablesView::open(image);
    return *view->find_port(*view->find_node(node), PortNumber{number});
  }

  /// HCA ports that packets should be able to pass between but cannot, as the fabric's own walk
  /// over the tables finds: it shares nothing with the subnet manager. Each `stride`th pair.
  [[nodiscard]] std::vector<std::string> unreachable(std::size_t stride = 1) const {
    return find_unreachable(stride, fabric::kNoPort);
  }
  /// Only in the part of the fabric that a host is in.
  [[nodiscard]] std::vector<std::string> unreachable_with(const std::string& host) const {
    return find_unreachable(1, port(host, 1));
  }

 private:
  [[nodiscard]] std::vector<std::string> find_unreachable(std::size_t stride,
                                                          fabric::PortIndex with) const {
    const std::vector<std::byte> image = builder.build(1);
    const auto view = fabric::TablesView::open(image);
    const std::vector<std::uint32_t> part = parts();
    std::vector<fabric::PortIndex> hosts;
    for (std::uint32_t i = 0; i < builder.ports().size(); ++i) {
      const fabric::PortRecord& record = builder.ports()[i];
      const bool is_up = record.peer != fabric::kNoPort && record.state != fabric::PortState::Down;
      if (!record.is_switch_port() && is_up) {
        hosts.push_back(fabric::PortIndex{i});
      }
    }
    std::vector<std::string> lost;
    std::size_t count = 0;
    for (const fabric::PortIndex from : hosts) {
      for (const fabric::PortIndex to : hosts) {
        const bool is_elsewhere =
            with != fabric::kNoPort && part[from.value()] != part[with.value()];
        if (count++ % stride != 0 || part[from.value()] != part[to.value()] || is_elsewhere) {
          continue;
        }
        const fabric::PortRecord& record = builder.port(to);
        for (std::uint32_t bits = 0; bits < 1U << record.lmc; ++bits) {
          const fabric::Path path = fabric::resolve(*view, from, Lid{record.lid.value() + bits});
          if (!path.is_delivered() || path.destination != to) {
            lost.push_back(fabric::describe(*view, path));
          }
        }
      }
    }
    return lost;
  }

  struct Placed {
    fabric::PortIndex at;
    std::unique_ptr<subnet::SubnetManager> manager;
  };

  /// By port: which part of the fabric it is in, by cables that are not down.
  [[nodiscard]] std::vector<std::uint32_t> parts() const {
    std::vector<std::uint32_t> part(builder.ports().size(), fabric::kNoIndex);
    std::vector<std::uint32_t> stack;
    for (std::uint32_t start = 0; start < part.size(); ++start) {
      if (part[start] != fabric::kNoIndex) {
        continue;
      }
      part[start] = start;
      stack.assign(1, start);
      const auto visit = [&](std::uint32_t next) {
        if (part[next] == fabric::kNoIndex) {
          part[next] = start;
          stack.push_back(next);
        }
      };
      while (!stack.empty()) {
        const fabric::PortRecord& record = builder.ports()[stack.back()];
        stack.pop_back();
        if (record.peer != fabric::kNoPort && record.state != fabric::PortState::Down) {
          visit(record.peer.value());
        }
        if (record.is_switch_port()) {
          const fabric::NodeRecord& node = builder.node(record.node);
          for (std::uint32_t i = 0; i < node.port_count; ++i) {
            visit(node.first_port.value() + i);
          }
        }
      }
    }
    return part;
  }

  struct PlacedServices {
    fabric::PortIndex at;
    std::unique_ptr<SubnetServices> services;
  };

  std::vector<Placed> managers_;
  std::vector<PlacedServices> services_;
};

}  // namespace weft::node::testing
