#pragma once

// Programs at hosts' Omni-Path ports: what each sends leaves by its port, and what comes there is
// kept for the program whose business it is, within limits. Groups and capabilities of a program
// end with it. Pure. One thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/strong.h"
#include "base/time.h"
#include "carriage/management_network.h"
#include "carriage/omni_path_packet.h"
#include "fabric/link_address.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "node/omni_path_manager.h"

namespace weft::node {

using OmniPathUserId = Ordered<struct OmniPathUserTag, std::uint32_t>;

/// What a program takes of what comes to its port. MADs are those of virtual NICs, since no other
/// class has users here; requests are told apart by their method, as agents are (R-VN-2).
struct OmniPathUse {
  bool takes_ethernet{};
  bool takes_answers{};
  mad::MethodSet requests{};
};

/// What was not carried on, of all programs.
struct OmniPathUserCounters {
  std::uint64_t no_packet{};  // sent, and none of a format and kind that programs may send
  std::uint64_t nobodys{};    // for which no program was there
  std::uint64_t lost{};       // for want of room
};

class OmniPathUsers final : public carriage::OmniPathSink {
 public:
  /// Limits of what waits for a program; policy.
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{16} << 20;
  /// Packets under way above which programs' next ones wait in their sockets; policy. The network
  /// would lose what is beyond its own limits.
  static constexpr std::size_t kEnoughUnderWay = 256;

  /// All must outlive it.
  OmniPathUsers(const fabric::TablesBuilder& tables, carriage::ManagementNetwork& network,
                OmniPathManager& manager);

  /// InvalidArgument: it is no Omni-Path port of a host. Exists: another program there takes some
  /// of that.
  [[nodiscard]] Result<OmniPathUserId> attach(fabric::PortIndex port, const OmniPathUse& use);
  void detach(OmniPathUserId user);

  /// As OmniPathManager::join(); a second time changes nothing.
  [[nodiscard]] Result<void> join(OmniPathUserId user, fabric::ExtendedLid mlid);
  void leave(OmniPathUserId user, fabric::ExtendedLid mlid);
  /// Of the user's port, as long as the user is there.
  void set_capabilities(OmniPathUserId user, std::uint16_t mask);

  /// True: there is little under way.
  [[nodiscard]] bool has_room() const { return network_.queued() < kEnoughUnderWay; }
  /// False: it is no packet that a program may send. Whether it goes on, the port and its keys
  /// decide.
  bool send(OmniPathUserId user, std::vector<std::byte> octets);

  [[nodiscard]] fabric::PortIndex port(OmniPathUserId user) const { return users_.at(user).port; }
  /// How many octets the next packet has that waits for the user; 0: none waits.
  [[nodiscard]] std::size_t next_bytes(OmniPathUserId user) const;
  /// There must be one.
  [[nodiscard]] std::vector<std::byte> take_next(OmniPathUserId user);
  /// Of the user's packets, for want of room.
  [[nodiscard]] std::uint64_t lost(OmniPathUserId user) const { return users_.at(user).lost; }

  [[nodiscard]] const OmniPathUserCounters& counters() const { return counters_; }

 private:
  struct User {
    fabric::PortIndex port;
    OmniPathUse use;
    std::uint16_t capabilities{};
    std::set<fabric::ExtendedLid> groups{};
    std::deque<std::vector<std::byte>> queue{};
    std::size_t queued_bytes{};
    std::uint64_t lost{};
  };

  void take(fabric::PortIndex at, const carriage::OmniPathPacket& packet, Instant now) override;
  void update_capabilities(fabric::PortIndex port);

  const fabric::TablesBuilder& tables_;
  carriage::ManagementNetwork& network_;
  OmniPathManager& manager_;
  std::map<OmniPathUserId, User> users_;
  std::map<fabric::PortIndex, std::vector<OmniPathUserId>> at_;
  std::uint32_t last_{};
  OmniPathUserCounters counters_;
};

}  // namespace weft::node
