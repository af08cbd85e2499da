#pragma once

// Hosts of a fabric whose programs use RDMA-CM: what they call, and the events that come of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "cm/rdma/rdma_cm.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/host_services.h"

namespace weft::node::testing {

using cm::ConnectionParameters;
using cm::PortSpace;
using cm::QpType;
using cm::RdmaCmEvent;
using cm::RdmaCmId;
using enum cm::RdmaCmEventType;

inline constexpr std::uint16_t kPort = 7471;
inline constexpr Duration kWaitLimit = Duration::seconds(2);

struct Events final : cm::RdmaCmSink {
  bool take(const RdmaCmEvent& event) override {
    waiting.push_back(event);
    return !is_full;
  }
  std::deque<RdmaCmEvent> waiting;
  bool is_full{};
};

[[nodiscard]] inline IpAddress address_of(std::uint32_t host) {
  return IpAddress::v4(0x7F4D'0000 + host);
}
[[nodiscard]] inline cm::IpEndpoint at(const IpAddress& address, std::uint16_t port = kPort) {
  return {.address = address, .port = port};
}
[[nodiscard]] inline std::vector<std::byte> text(std::string_view words) {
  const auto octets = std::as_bytes(std::span{words});
  return {octets.begin(), octets.end()};
}
[[nodiscard]] inline std::vector<std::byte> first(const std::vector<std::byte>& data,
                                                  std::size_t bytes) {
  return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, data.size()))};
}

/// Hosts h1 to h3, and others that tests add by such names.
struct RdmaCmHosts : ::testing::Test {
  void SetUp() override {
    auto made = Fabric::create(*fabric::generate_star(3), now);
    ASSERT_TRUE(made) << made.error().reason;
    fabric = std::move(*made);
  }
  [[nodiscard]] fabric::NodeIndex node(std::uint32_t host) const {
    return *fabric->builder().find_node("h" + std::to_string(host));
  }
  cm::RdmaCm& rdma(std::uint32_t host) { return fabric->hosts().host(node(host), now).rdma_cm(); }
  void run_for(Duration span) {
    for (std::uint32_t host = 1; host <= 5; ++host) {
      const auto found = fabric->builder().find_node("h" + std::to_string(host));
      if (found && fabric->hosts().has(*found)) {
        fabric->hosts().wake(*found);
      }
    }
    const Instant end = now + span;
    while (now <= end) {
      while (fabric->run_management(now)) {
      }
      now = std::max(now, fabric->management_deadline());
    }
    now = end;
  }
  /// The next event of an id's user, which must be of this type.
  RdmaCmEvent expect(Events& events, cm::RdmaCmEventType type) {
    for (int i = 0; i < 200 && events.waiting.empty(); ++i) {
      run_for(Duration::milliseconds(50));
    }
    if (events.waiting.empty()) {
      ADD_FAILURE() << "no event " << static_cast<int>(type);
      return {};
    }
    RdmaCmEvent event = std::move(events.waiting.front());
    events.waiting.pop_front();
    EXPECT_EQ(event.type, type) << static_cast<int>(event.type) << " status "
                                << static_cast<int>(event.status) << " failure "
                                << static_cast<int>(event.failure);
    return event;
  }
  RdmaCmId make(std::uint32_t host, Events& events, PortSpace space = PortSpace::Tcp,
                QpType type = QpType::Rc) {
    return *rdma(host).create(space, type, events, host);
  }
  RdmaCmId listen(std::uint32_t host, const cm::SocketAddress& address,
                  PortSpace space = PortSpace::Tcp, QpType type = QpType::Rc) {
    const RdmaCmId id = make(host, server, space, type);
    EXPECT_TRUE(rdma(host).bind(id, address, now));
    EXPECT_TRUE(rdma(host).listen(id, 0, now));
    return id;
  }
  RdmaCmId resolve(std::uint32_t host, const cm::SocketAddress& to,
                   PortSpace space = PortSpace::Tcp, QpType type = QpType::Rc) {
    const RdmaCmId id = make(host, client, space, type);
    const auto started =
        rdma(host).resolve_address(id, {.destination = to, .timeout = kWaitLimit}, now);
    EXPECT_TRUE(started) << started.error().reason;
    expect(client, AddressResolved);
    EXPECT_TRUE(rdma(host).resolve_route(id, kWaitLimit, now));
    expect(client, RouteResolved);
    return id;
  }
  struct Connected {
    RdmaCmId client;
    RdmaCmId server;
  };
  Connected connect(std::uint32_t from, std::uint32_t to, const cm::SocketAddress& address) {
    const RdmaCmId id = resolve(from, address);
    EXPECT_TRUE(rdma(from).connect(
        id, {.qpn = Qpn{0x111}, .retry_count = 7, .private_data = text("hello")}, now));
    const RdmaCmEvent request = expect(server, ConnectRequest);
    EXPECT_EQ(first(request.parameters.private_data, 5), text("hello"));
    EXPECT_EQ(request.parameters.qpn, Qpn{0x111});
    const ConnectionParameters reply{.qpn = Qpn{0x222}, .private_data = text("welcome")};
    const auto ready =
        rdma(to).qp_attributes(request.id, verbs::QpState::Rtr);  // before it answers
    EXPECT_TRUE(rdma(to).accept(request.id, &reply, now));
    EXPECT_TRUE(rdma(to).set_context(request.id, 77));
    const RdmaCmEvent response = expect(client, ConnectResponse);
    EXPECT_EQ(response.parameters.qpn, Qpn{0x222});
    EXPECT_EQ(first(response.parameters.private_data, 7), text("welcome"));
    EXPECT_EQ(rdma(from).qp_attributes(id, verbs::QpState::Rts)->attributes.sq_psn,
              ready->attributes.rq_psn);
    EXPECT_TRUE(rdma(from).accept(id, nullptr, now));
    EXPECT_EQ(expect(server, Established).context, 77U);
    return {.client = id, .server = request.id};
  }

  Instant now{Duration::seconds(1)};
  std::unique_ptr<Fabric> fabric;
  Events server;
  Events client;
};

}  // namespace weft::node::testing
