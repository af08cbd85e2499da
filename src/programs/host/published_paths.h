#pragma once

// The paths of a host's resolver in shared memory (sa/published_paths.h): who shows them, and who
// looks there. The fabric's daemon, which is the host's kernel side, introduces the two, and says
// when the resolver is gone. Any one thread each.

#include <optional>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "os/packet_socket.h"
#include "os/shared_memory.h"
#include "sa/published_paths.h"

namespace weft::programs {

/// A resolver's, as long as it lives.
class ShownPaths {
 public:
  /// Refused, in the daemon's words: it may not, or another one does.
  [[nodiscard]] static Result<ShownPaths> show();

  [[nodiscard]] sa::PathPublisher publisher() const { return sa::PathPublisher{memory_.bytes()}; }

 private:
  ShownPaths(os::PacketSocket socket, os::Mapping memory)
      : socket_(std::move(socket)), memory_(std::move(memory)) {}

  os::PacketSocket socket_;  // while it is open the daemon believes the memory
  os::Mapping memory_;
};

/// Any program's of the host.
class ResolversPaths {
 public:
  /// Refused: no resolver of this host shows its paths.
  [[nodiscard]] static Result<ResolversPaths> open();

  /// False: the resolver is gone; another one's paths are elsewhere.
  [[nodiscard]] bool is_live() const { return paths_.is_live(); }
  /// None: it is to be asked by netlink, or SA. `sgid` must be given.
  [[nodiscard]] std::optional<wire::PathRecord> find(const sa::PathQuery& asked,
                                                     Instant now) const {
    return paths_.find(asked, now);
  }

 private:
  explicit ResolversPaths(os::Mapping memory)
      : memory_(std::move(memory)), paths_(memory_.bytes()) {}

  os::Mapping memory_;
  sa::PublishedPaths paths_;
};

}  // namespace weft::programs
