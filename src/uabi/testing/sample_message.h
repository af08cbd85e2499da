#pragma once

// For fuzzers of the control protocol: a message of each type with names and numbers that exist in
// a small fabric (h1, h2, h3 at s1), so that it is not refused by the first check. Value types.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/process_slot.h"
#include "base/random.h"
#include "base/testing/pieces.h"
#include "uabi/messages.h"

namespace weft::uabi::testing {

[[nodiscard]] inline std::string any_of(Random& random, std::initializer_list<const char*> words) {
  return *(words.begin() + random.below(words.size()));
}

[[nodiscard]] inline RdmaCmAddress sample_address(Random& random) {
  RdmaCmAddress address{.family = static_cast<RdmaCmFamily>(random.below(4)),
                        .port = static_cast<std::uint16_t>(random.below(3)),
                        .pkey = kDefaultPKey};
  constexpr std::uint64_t kTcpSpace = 0x0106;
  address.service_id = kTcpSpace << 16 | address.port;
  address.service_mask = random.chance(1, 2) ? ~std::uint64_t{0} : 0xFFFF;
  const auto host = static_cast<std::byte>(random.below(4));
  if (address.family == RdmaCmFamily::Ip4) {  // 127.77.0.N, an own loopback, a group
    constexpr std::array kFirst = {std::byte{127}, std::byte{127}, std::byte{224}};
    const std::size_t kind = random.below(kFirst.size());
    address.octets = {kFirst.at(kind), kind == 0 ? std::byte{77} : std::byte{}, std::byte{}, host};
  } else if (address.family == RdmaCmFamily::Ib) {  // GIDs of hosts are of the default prefix
    address.octets = {std::byte{0xFE}, std::byte{0x80}};
    address.octets.back() = host;
  } else if (address.family == RdmaCmFamily::Ip6) {
    address.octets.front() = std::byte{random.chance(1, 2) ? std::uint8_t{0xFF} : std::uint8_t{}};
    address.octets.back() = host;
  }
  return address;
}

[[nodiscard]] inline verbs::ConnectionParameters sample_parameters(Random& random) {
  verbs::ConnectionParameters parameters{
      .qpn = Qpn{static_cast<std::uint32_t>(random.below(4))},
      .retry_count = static_cast<std::uint8_t>(random.below(9)),
      .rnr_retry_count = static_cast<std::uint8_t>(random.below(9))};
  parameters.private_data.resize(random.below(5) * 20);
  return parameters;
}

/// Text or a small number, whichever the member is.
template <class Member>
void put(Member& member, Random& random, std::initializer_list<const char*> words) {
  if constexpr (std::is_same_v<Member, std::string>) {
    member = any_of(random, words);
  } else if constexpr (std::is_same_v<Member, PortNumber>) {
    member = PortNumber{static_cast<std::uint8_t>(random.below(5))};
  } else {
    member = static_cast<Member>(random.below(5));
  }
}

// Members by their names, which mean the same in every message that has one.

template <class Message>
void fill_words(Message& m, Random& random) {
  if constexpr (requires { m.version; }) {
    m.version = kVersion;
  }
  if constexpr (requires { m.host; }) {
    put(m.host, random, {"h1", "h2", "h3", "s1"});
  }
  if constexpr (requires { m.node; }) {
    put(m.node, random, {"h1", "h2", "s1"});
  }
  if constexpr (requires { m.loopback; }) {
    put(m.loopback, random, {"", "h1", "h2"});
  }
  if constexpr (requires { m.device; }) {
    put(m.device, random, {"weft0", "weft1", ""});
  }
  if constexpr (requires { m.rule; }) {
    put(m.rule, random,
        {"drop p=0.5", "drop every=3 out=h1:1", "corrupt psn=7-9 seed=3 p=0.1",
         "duplicate count=2 after=1", "reorder by=5ms opcode=rc-send-only", "down for=1ms",
         "drop slid=1 dlid=2 qp=1 in=s1:1 for=5ms", "corrupt opcode=*-ack* link=h2"});
  }
  if constexpr (requires { m.change; }) {
    put(m.change, random,
        {"plug", "unplug", "disable", "enable", "reset", "down", "arm", "active",
         "width=1x speed=sdr", "width=all speed=all", "add host h9 link=s1",
         "add switch s9 ports=4 link=s1", "add host h8 link=s1 hcas=2 ports=2", "remove h3",
         "remove h3 force"});
  }
  if constexpr (requires { m.name; }) {
    put(m.name, random, {"", "echo", "storage"});
  }
  if constexpr (requires { m.neighbor; }) {
    put(m.neighbor, random, {"10.77.0.1", "10.77.0.2", "fe80::1", ""});
  }
  if constexpr (requires { m.addresses; }) {
    m.addresses.assign(random.below(3),
                       any_of(random, {"10.77.0.1/16", "127.77.0.2/8", "fe80::1/64"}));
  }
  if constexpr (requires { m.port; }) {
    put(m.port, random, {"h1", "h2:1", "s1:1", "h3/weft0:1"});
  }
}

template <class Message>
void fill_numbers(Message& m, Random& random) {
  const auto number = [&](std::uint64_t bound) {
    return static_cast<std::uint8_t>(random.below(bound));
  };
  if constexpr (requires { m.peer.slot; }) {
    m.peer = {.node = number(4), .slot = number(6)};
  }
  if constexpr (requires { m.domain; }) {
    m.domain = number(4);
  }
  if constexpr (requires { m.id; }) {
    m.id = number(8);
  }
  if constexpr (requires { m.agent; }) {
    m.agent = number(4);
  }
  if constexpr (requires { m.creates; }) {
    m.creates = random.chance(3, 4);
  }
  if constexpr (requires { m.mlid; }) {
    m.mlid = Lid{(random.chance(1, 2) ? 0xC000U : 0xF0'0000U) + number(4)};
  }
  if constexpr (requires { m.mgid; }) {
    m.mgid = Gid{0xFF12'0000'0000'0000, Guid{number(4)}};
  }
  if constexpr (requires { m.timeout_ms; }) {
    m.timeout_ms = number(200);
  }
  if constexpr (requires { m.has_parameters; }) {
    m.has_parameters = random.chance(1, 2);
  }
  if constexpr (requires { m.mgmt_class; }) {
    constexpr std::array<std::uint8_t, 6> kClasses = {0x01, 0x81, 0x03, 0x04, 0x07, 0x30};
    m.mgmt_class = kClasses.at(random.below(kClasses.size()));
    m.class_version = m.mgmt_class == 0x03 ? 2 : 1;
    m.rmpp_version = number(2);
    m.methods[0] = random();
  }
  if constexpr (requires { m.port_space; }) {
    constexpr std::array<std::uint16_t, 4> kSpaces = {0x0106, 0x0111, 0x0002, 0x013F};
    constexpr std::array<std::uint8_t, 4> kTypes = {2, 4, 4, 2};
    const std::size_t which = random.below(kSpaces.size());
    m.port_space = kSpaces.at(which);
    m.qp_type = kTypes.at(which);
  }
}

template <class Message>
void fill_parts(Message& m, Random& random) {
  if constexpr (requires { m.address; }) {
    m.address = sample_address(random);
  }
  if constexpr (requires { m.destination.family; }) {
    m.source = random.chance(1, 2) ? RdmaCmAddress{} : sample_address(random);
    m.destination = sample_address(random);
  }
  if constexpr (requires { m.parameters; }) {
    m.parameters = sample_parameters(random);
  }
  if constexpr (requires { m.paths; }) {
    m.paths.resize(random.below(3));
  }
  if constexpr (requires { m.names; }) {
    m.names.assign(random.below(3), "weft0");
  }
  if constexpr (requires { m.ports; }) {
    m.ports.resize(random.below(3));
  }
  if constexpr (requires { m.takes_ethernet; }) {
    m.hca = static_cast<std::uint32_t>(random.below(2));
    m.takes_ethernet = random.chance(1, 2);
    m.mad_methods[0] = random.below(8);
  }
  if constexpr (requires { m.packets; }) {
    m.packets.resize(random.below(3));
    for (auto& packet : m.packets) {
      packet.octets.resize(random.below(5) * 8);
    }
  }
  if constexpr (requires { m.services; }) {
    m.services.resize(random.below(3));
  }
  if constexpr (requires { m.mgids; }) {
    m.mgids.assign(random.below(3), Gid{0xFF12'401B'FFFF'0000, Guid{random.below(4)}});
  }
  if constexpr (requires { m.members; }) {
    m.members.resize(random.below(3));
  }
}

/// Which kind a message is, as its bytes begin.
template <class Wanted>
inline constexpr std::size_t kKindOf = Message::kIndexOf<Wanted>;

/// Of the kind `index`.
[[nodiscard]] inline Message sample_message(std::size_t index, Random& random) {
  return Message::visit_kind(index, [&]<class Kind>(std::type_identity<Kind> /*kind*/) {
    Kind message{};
    fill_words(message, random);
    fill_numbers(message, random);
    fill_parts(message, random);
    return Message{std::move(message)};
  });
}

/// Its bytes.
[[nodiscard]] inline fuzz::Octets sample_octets(std::size_t index, Random& random) {
  const std::vector<std::byte> bytes = encode(sample_message(index, random));
  fuzz::Octets octets(bytes.size());
  std::ranges::transform(bytes, octets.begin(),
                         [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
  return octets;
}

}  // namespace weft::uabi::testing
