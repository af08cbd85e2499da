#pragma once

// Which command makes a host's namespaces, and which ones wait for it. Two that were made at once
// would be two hosts with one address on the hub: a neighbour that asks by ARP keeps whichever
// answered first, also when that one is given up a moment later.

#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "fabric/tables.h"

namespace weft::daemon {

class Client;

/// Pure: it only tells clients apart.
class HostMakers {
 public:
  /// How long others wait for who makes a host: it may have been stopped. Policy.
  static constexpr Duration kTurn = Duration::seconds(5);

  struct Turn {
    fabric::NodeIndex host;
    Client* maker{};
  };

  /// True if `client` is to make the host now. Otherwise it waits: finish() or leave() names it.
  [[nodiscard]] bool take(fabric::NodeIndex host, Client& client, Instant now);
  /// The host is made. Called until there is none: one who waits for it. One at a time, since a
  /// client that is told may end, and leave().
  [[nodiscard]] Client* finish(fabric::NodeIndex host);
  /// The client has gone. Called until there is none: a host that it was to make, and whose turn
  /// that is now.
  [[nodiscard]] std::optional<Turn> leave(const Client& client, Instant now);

 private:
  struct Making {
    Client* maker{};
    Instant since;
    std::vector<Client*> waiting;  // first come, first
  };
  /// Takes it out; null if there is none.
  [[nodiscard]] static Client* next(Making& making);

  std::map<fabric::NodeIndex, Making> makings_;
};

}  // namespace weft::daemon
