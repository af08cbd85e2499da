#pragma once

// For tests: hosts with an IPoIB interface each on one link in virtual time, and an SA that serves
// its broadcast group.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/random.h"
#include "mad/testing/network.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"
#include "wire/ipoib/mgid.h"
#include "wire/mad/component_mask.h"

namespace weft::sa::testing {

[[nodiscard]] inline IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }
[[nodiscard]] inline InterfaceAddress with_prefix(std::string_view text) {
  return parse_interface_address(text).value();
}

inline constexpr Lid kSaLid{100};
inline constexpr QKey kLinkQKey{0x0B1B};
inline constexpr Lid kLinkMlid{0xC000};

struct Host {
  Host(std::uint32_t number, const ResolverOptions& options)
      : lid(Lid{number}), gid(Gid{kDefaultGidPrefix, Guid{number}}), resolver(options) {}

  [[nodiscard]] LocalPort port(bool is_active = true) const {
    LocalPort port;
    port.lid = lid;
    port.state = is_active ? verbs::PortState::Active : verbs::PortState::Down;
    port.sm_lid = kSaLid;
    port.gids = {gid};
    port.pkeys = {kDefaultPKey};
    return port;
  }

  Lid lid;
  Gid gid;
  mad::ManagementInterface gsi{mad::InterfaceKind::Gsi};
  SaClient sa{gsi};
  Resolver resolver;
};

/// How a resolution ended, and when.
struct Reported {
  std::expected<Resolution, ResolutionError> outcome;
  Instant at;
};

class Link {
 public:
  explicit Link(std::uint64_t seed = 1, unsigned loss_percent = 0)
      : random_(seed), loss_(loss_percent) {
    network.attach(kSaLid, sa_gsi_);
    EXPECT_TRUE(sa_gsi_.register_agent(
        mad::registration_of(wire::ManagementClass::SubnAdm,
                             {wire::MadMethod::Set, wire::MadMethod::Delete}),
        &server_));
  }

  /// The next number: 127.77.0.N, LID N.
  Host& add_host(std::vector<InterfaceAddress> addresses = {},
                 const ResolverOptions& options = {}) {
    const auto number = static_cast<std::uint32_t>(hosts.size() + 1);
    Host& host = *hosts.emplace_back(std::make_unique<Host>(number, options));
    network.attach(host.lid, host.gsi);
    host.sa.set_port(host.port(), network.now);
    if (addresses.empty()) {
      addresses = {
          {IpAddress::v4(0x7F4D'0000 + number), 8},
          {IpAddress::v6(0xFD77'0000'0000'0000, number), 48}
      };
    }
    EXPECT_TRUE(host.resolver.add_interface({.port = PortKey{number}}, Qpn{0x100 + number}, host.sa,
                                            std::move(addresses), network.now));
    return host;
  }

  void set_active(Host& host, bool is_active) {
    host.sa.set_port(host.port(is_active), network.now);
    host.resolver.port_changed(PortKey{host.lid.value()}, network.now);
  }

  /// Turns of a millisecond.
  void run_for(Duration span) {
    const Instant end = network.now + span;
    while (network.now < end) {
      network.run(std::min(network.now + Duration::milliseconds(1), end));
      for (const auto& host : hosts) {
        host->sa.handle_timeout(network.now);
        host->resolver.handle_timeout(network.now);
        while (const auto out = host->resolver.poll_transmit()) {
          transmit(*host, out->second);
        }
      }
      for (const auto& host : hosts) {
        host->resolver.handle_timeout(network.now);
      }
    }
  }

  /// As the fabric would bring it: to all others of the group, or to the owner of the LID.
  void transmit(const Host& from, const mad::Datagram& datagram) {
    sent.push_back({from.lid, datagram});
    for (const auto& host : hosts) {
      const bool is_for_it =
          datagram.to.lid.is_multicast() ? host.get() != &from : host->lid == datagram.to.lid;
      if (is_for_it && !random_.chance(loss_, 100)) {
        deliver(*host, from, datagram);
      }
    }
  }

  void deliver(Host& to, const Host& from, const mad::Datagram& datagram) {
    mad::ReceivedDatagram received{
        .destination_qp = datagram.to.qp,
        .destination_gid = {},
        .source = {.lid = from.lid,
                            .sl = datagram.to.sl,
                            .qp = datagram.source_qp,
                            .qkey = datagram.to.qkey,
                            .pkey = datagram.to.pkey},
        .payload = datagram.payload
    };
    if (datagram.to.global) {
      received.destination_gid = datagram.to.global->dgid;
      received.source.global = datagram.to.global;
      received.source.global->dgid = from.gid;
    }
    to.resolver.handle_datagram(PortKey{to.lid.value()}, received, network.now);
  }

  /// Resolves and waits for completion.
  std::expected<Resolution, ResolutionError> resolve(Host& host, std::string_view destination,
                                                     std::string_view source = "0.0.0.0",
                                                     Duration timeout = Duration::seconds(2)) {
    std::vector<Reported> reported;
    const auto id =
        host.resolver.resolve(ip(source), ip(destination), timeout, into(reported), network.now);
    EXPECT_TRUE(id.has_value());
    for (int turn = 0; reported.empty() && turn < 10'000; ++turn) {
      run_for(Duration::milliseconds(1));
    }
    EXPECT_EQ(reported.size(), 1U);
    return reported.at(0).outcome;
  }

  [[nodiscard]] static ResolutionHandler into(std::vector<Reported>& reported) {
    return [&reported](ResolutionId, const std::expected<Resolution, ResolutionError>& outcome,
                       Instant at) { reported.push_back({outcome, at}); };
  }

  /// Whether the broadcast group exists, and whether SA accepts joins with all properties.
  bool has_group{true};
  bool accepts_joins{true};
  std::vector<std::unique_ptr<Host>> hosts;
  mad::TestNetwork network;
  struct Sent {
    Lid from;
    mad::Datagram datagram;
  };
  std::vector<Sent> sent;

 private:
  const mad::MadMessage* serve(mad::MadRequest& request) {
    constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
    const auto header =
        wire::unpack<wire::SaHeader>(std::span{request.message.mad}.first<kHeaderBytes>());
    auto member =
        *wire::parse<wire::McMemberRecord>(ByteSpan{request.message.mad}.subspan(kHeaderBytes));
    const bool makes =
        (header.component_mask & wire::kComponent<wire::McMemberRecord, "Q_Key">) != 0;
    has_group |= makes && accepts_joins;
    if (!has_group || !accepts_joins) {
      request.message.set_status(
          static_cast<std::uint16_t>(wire::SaStatus::RequestInsufficientComponents));
      return &request.message;
    }
    member.mlid = kLinkMlid;
    member.qkey = kLinkQKey;
    copy_bytes(std::span{request.message.mad}.subspan(kHeaderBytes), wire::pack(member));
    return &request.message;
  }

  Random random_;
  unsigned loss_;
  mad::ManagementInterface sa_gsi_{mad::InterfaceKind::Gsi};
  mad::TestAgent server_{[this](mad::MadRequest& request) { return serve(request); }};
};

}  // namespace weft::sa::testing
