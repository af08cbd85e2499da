#pragma once

// Paths to the neighbours of an interface, and packets that wait for them. The states are a table;
// no lock is held while SA is asked, so a neighbour's and a path's life cannot wait for each other.
// Pure, not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "wire/ipoib/hardware_address.h"
#include "wire/mad/path_record.h"

namespace weft::ipoib {

using Packet = std::vector<std::byte>;

enum class PathState : std::uint8_t {
  Querying,  ///< packets wait
  Ready,
  Refreshing,  ///< the path is in use, and asked for again
  Backoff,     ///< SA knows of none; packets are dropped
};

enum class PathEvent : std::uint8_t {
  Answered,
  Failed,       ///< SA has no path, or does not answer
  Invalidated,  ///< another subnet manager, LID or routing: the path may be another one
  Broken,       ///< packets do not arrive: the path is not used any more
};

struct PathRow {
  PathState state;
  PathEvent event;
  PathState next;
};
/// What does not stand here changes nothing. Entering Querying or Refreshing asks SA.
inline constexpr auto kPathRows = std::to_array<PathRow>({
    {PathState::Querying,   PathEvent::Answered,    PathState::Ready     },
    {PathState::Querying,   PathEvent::Failed,      PathState::Backoff   },
    {PathState::Querying,   PathEvent::Invalidated, PathState::Querying  },
    {PathState::Ready,      PathEvent::Invalidated, PathState::Refreshing},
    {PathState::Ready,      PathEvent::Broken,      PathState::Querying  },
    {PathState::Refreshing, PathEvent::Answered,    PathState::Ready     },
    {PathState::Refreshing, PathEvent::Failed,      PathState::Backoff   },
    {PathState::Refreshing, PathEvent::Invalidated, PathState::Refreshing},
    {PathState::Refreshing, PathEvent::Broken,      PathState::Querying  },
    {PathState::Backoff,    PathEvent::Invalidated, PathState::Querying  },
});
[[nodiscard]] std::optional<PathState> next_state(PathState state, PathEvent event);

/// Policy, not from the specification.
struct PathLimits {
  std::size_t paths{4096};
  std::size_t packets_of_path{16};
  Duration backoff{Duration::seconds(1)};
  Duration unused{Duration::seconds(600)};  ///< then a path is forgotten
};

struct PathCounters {
  std::uint64_t queries{};
  std::uint64_t failures{};
  std::uint64_t dropped{};  ///< packets that waited too many or too long
};

class PathTable {
 public:
  using QueryId = std::uint64_t;
  /// What the table wants done, in order.
  struct Query {
    QueryId id{};
    Gid dgid{};
  };
  struct Send {
    wire::PathRecord path{};
    wire::IpoibHardwareAddress neighbor{};
    Packet packet;
  };

  explicit PathTable(const PathLimits& limits = {}) : limits_(limits) {}

  /// Sends to a neighbour: now, or when its path is known.
  void send(const wire::IpoibHardwareAddress& neighbor, Packet packet, Instant now);

  /// SA's answer. An earlier query's is ignored.
  void answered(QueryId query, const wire::PathRecord& path, Instant now);
  void failed(QueryId query, Instant now);
  /// Another SM, a LID change, a client reregistration.
  void invalidate_all(Instant now);
  /// What goes there does not arrive.
  void broken(const Gid& dgid, Instant now);
  /// The link is down: paths and packets go.
  void clear();

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::optional<Query> poll_query();
  [[nodiscard]] std::optional<Send> poll_send();

  [[nodiscard]] std::optional<wire::PathRecord> find(const Gid& dgid) const;
  [[nodiscard]] std::optional<PathState> state_of(const Gid& dgid) const;
  [[nodiscard]] std::size_t size() const { return paths_.size(); }
  [[nodiscard]] const PathCounters& counters() const { return counters_; }

 private:
  struct Path {
    PathState state{PathState::Querying};
    QueryId query{};
    wire::PathRecord record{};
    Instant due{Instant::never()};
    Instant used{};
    std::deque<std::pair<wire::IpoibHardwareAddress, Packet>> waiting;
  };

  [[nodiscard]] std::map<Gid, Path>::iterator find_query(QueryId query);
  void step(const Gid& dgid, Path& path, PathEvent event, Instant now);
  void enter(const Gid& dgid, Path& path, Instant now);
  void make_room();

  PathLimits limits_;
  std::map<Gid, Path> paths_;
  std::deque<Query> queries_;
  std::deque<Send> sends_;
  QueryId last_query_{};
  PathCounters counters_;
};

}  // namespace weft::ipoib
