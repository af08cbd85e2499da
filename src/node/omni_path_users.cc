#include "node/omni_path_users.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "wire/mad/mad.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::node {

using carriage::OmniPathPacket;
using fabric::ExtendedLid;
using fabric::PortIndex;

namespace {

/// The header of a MAD of virtual NICs at QP1; none: it is no such MAD.
[[nodiscard]] std::optional<wire::MadHeader> vema_header_of(ByteSpan packet) {
  const auto parsed = wire::parse_opa_mad(packet);
  if (!parsed || parsed->management.dest_qp != kQp1) {
    return std::nullopt;
  }
  const auto header =
      wire::unpack<wire::MadHeader>(parsed->mad.first<wire::kSizeOf<wire::MadHeader>>());
  return header.mgmt_class == wire::kVemaClass ? std::optional{header} : std::nullopt;
}

/// Methods are 7 bits; the eighth says that it is an answer (IBTA vol 1 §13.4.2).
[[nodiscard]] bool takes(const OmniPathUse& use, wire::MadMethod method) {
  constexpr std::uint8_t kAnswer = 0x80;
  const auto number = std::to_underlying(method);
  return (number & kAnswer) != 0 ? use.takes_answers : use.requests.test(number);
}

[[nodiscard]] bool overlaps(const OmniPathUse& a, const OmniPathUse& b) {
  return (a.takes_ethernet && b.takes_ethernet) || (a.takes_answers && b.takes_answers) ||
         (a.requests & b.requests).any();
}

}  // namespace

OmniPathUsers::OmniPathUsers(const fabric::TablesBuilder& tables,
                             carriage::ManagementNetwork& network, OmniPathManager& manager)
    : tables_(tables), network_(network), manager_(manager) {
  network_.set_sink(this);
}

Result<OmniPathUserId> OmniPathUsers::attach(PortIndex port, const OmniPathUse& use) {
  if (port.value() >= tables_.ports().size() || !tables_.port(port).is_omni_path() ||
      tables_.port(port).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument, "port {} is no Omni-Path port of a host", port.value());
  }
  std::vector<OmniPathUserId>& others = at_[port];
  if (std::ranges::any_of(
          others, [&](OmniPathUserId other) { return overlaps(users_.at(other).use, use); })) {
    return fail(ErrorCode::Exists,
                "another program at this port takes its Ethernet packets, or MADs of such methods, "
                "already");
  }
  const OmniPathUserId user{++last_};
  others.push_back(user);
  users_.emplace(user, User{.port = port, .use = use});
  return user;
}

void OmniPathUsers::detach(OmniPathUserId user) {
  const auto found = users_.find(user);
  WEFT_ASSERT(found != users_.end(), "a user is detached once");
  const PortIndex port = found->second.port;
  for (const ExtendedLid mlid : found->second.groups) {
    manager_.leave(port, mlid);
  }
  users_.erase(found);
  std::erase(at_.at(port), user);
  update_capabilities(port);
}

Result<void> OmniPathUsers::join(OmniPathUserId user, ExtendedLid mlid) {
  User& joining = users_.at(user);
  if (joining.groups.contains(mlid)) {
    return {};
  }
  auto joined = manager_.join(joining.port, mlid);
  if (joined) {
    joining.groups.insert(mlid);
  }
  return joined;
}

void OmniPathUsers::leave(OmniPathUserId user, ExtendedLid mlid) {
  User& leaving = users_.at(user);
  if (leaving.groups.erase(mlid) != 0) {
    manager_.leave(leaving.port, mlid);
  }
}

void OmniPathUsers::set_capabilities(OmniPathUserId user, std::uint16_t mask) {
  User& setting = users_.at(user);
  if (std::exchange(setting.capabilities, mask) != mask) {
    update_capabilities(setting.port);
  }
}

void OmniPathUsers::update_capabilities(PortIndex port) {
  std::uint16_t mask = 0;
  for (const OmniPathUserId user : at_.at(port)) {
    mask |= users_.at(user).capabilities;
  }
  manager_.set_capabilities(port, mask);
}

bool OmniPathUsers::send(OmniPathUserId user, std::vector<std::byte> octets) {
  auto packet = carriage::to_omni_path_packet(std::move(octets));
  const bool may_go =
      packet && (packet->is_management ? vema_header_of(packet->octets).has_value()
                                       : wire::parse_opa_ethernet(packet->octets).has_value());
  if (!may_go) {
    ++counters_.no_packet;
    return false;
  }
  network_.send(users_.at(user).port, *std::move(packet));
  return true;
}

void OmniPathUsers::take(PortIndex at, const OmniPathPacket& packet, Instant /*now*/) {
  const auto header = packet.is_management ? vema_header_of(packet.octets) : std::nullopt;
  const auto found = at_.find(at);
  const auto wants = [&](OmniPathUserId user) {
    const OmniPathUse& use = users_.at(user).use;
    return packet.is_management ? header && takes(use, header->method) : use.takes_ethernet;
  };
  const auto whose = found == at_.end() ? std::vector<OmniPathUserId>::const_iterator{}
                                        : std::ranges::find_if(std::as_const(found->second), wants);
  if (found == at_.end() || whose == found->second.end()) {
    ++counters_.nobodys;
    return;
  }
  User& user = users_.at(*whose);
  if (user.queue.size() >= kMaxQueued ||
      user.queued_bytes + packet.octets.size() > kMaxQueuedBytes) {
    ++user.lost;
    ++counters_.lost;
    return;
  }
  user.queued_bytes += packet.octets.size();
  user.queue.push_back(packet.octets);
}

std::size_t OmniPathUsers::next_bytes(OmniPathUserId user) const {
  const User& of = users_.at(user);
  return of.queue.empty() ? 0 : of.queue.front().size();
}

std::vector<std::byte> OmniPathUsers::take_next(OmniPathUserId user) {
  User& of = users_.at(user);
  WEFT_ASSERT(!of.queue.empty(), "a packet is taken only if one waits");
  std::vector<std::byte> octets = std::move(of.queue.front());
  of.queue.pop_front();
  of.queued_bytes -= octets.size();
  return octets;
}

}  // namespace weft::node
