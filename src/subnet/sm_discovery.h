#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "subnet/smp_client.h"
#include "subnet/subnet.h"
#include "wire/mad/sm_info.h"

namespace weft::subnet {

/// Discovers a subnet by directed routes, starting at the SM's own port (IBTA vol 1 §14.4.3). It
/// yields the requests to send and accepts responses in any order; the owner does the sending.
/// Links about which the SMAs at both ends contradict each other are treated as unconnected. Not
/// thread-safe.
class Discovery {
 public:
  /// Attributes in `before` that only a restart of the node can change are not read again.
  Discovery(std::uint64_t subnet_prefix, const Subnet* before);

  [[nodiscard]] std::optional<SmpRequest> next();
  void take(const SmpRequest& request, const SmpAnswer& answer);

  /// Directed route to the node of the request.
  [[nodiscard]] DirectedRoute route_of(const SmpRequest& request) const;

  /// Anomalies found so far.
  struct Problems {
    std::uint32_t unanswered{};
    std::uint32_t refused{};
    std::uint32_t duplicate_guids{};
    std::uint32_t inconsistent{};
  };
  [[nodiscard]] const Problems& problems() const { return problems_; }
  /// None if not even the local node answered.
  [[nodiscard]] std::optional<PortId> own_port() const { return own_port_; }
  /// Ports whose PortInfo says that a subnet manager runs there.
  [[nodiscard]] const std::vector<PortId>& managers() const { return managers_; }
  [[nodiscard]] Subnet& subnet() { return subnet_; }

 private:
  void take_node_info(const SmpRequest& request, const SmpAnswer& answer);
  void take_port_info(const SmpRequest& request, const SmpAnswer& answer);
  void take_switch_info(const SmpRequest& request, const SmpAnswer& answer);
  void take_pkeys(const SmpRequest& request, const SmpAnswer& answer);
  void take_guids(const SmpRequest& request, const SmpAnswer& answer);
  [[nodiscard]] std::optional<NodeId> enter(const wire::NodeInfo& info, const DirectedRoute& route);
  void enter_port(PortId port, const wire::NodeInfo& info, const DirectedRoute& route);
  void query_attributes(NodeId node);
  void ask(PortId to, wire::SmpAttribute attribute, std::uint32_t modifier = 0);
  void read_or_reuse(PortId port);
  void reuse_lanes(PortId port);
  [[nodiscard]] bool is_sensible(const wire::NodeInfo& info) const;

  const Subnet* before_;
  Subnet subnet_;
  std::deque<SmpRequest> queue_;
  std::optional<PortId> own_port_;
  std::vector<PortId> managers_;
  Problems problems_;
};

}  // namespace weft::subnet
