#pragma once

// One logical unit by several sessions, as over two ports of a target: requests take a path that is
// live, and those whose path was lost are repeated on another one (R-SRPI-5). Pure; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ulp/srp/session.h"

namespace weft::srp {

class MultipathClient {
 public:
  /// Once for each request that was submitted.
  virtual void handle_outcome(std::uint64_t id, const Outcome& outcome) = 0;

 protected:
  ~MultipathClient() = default;
};

/// Which path is taken where several are live.
enum class PathChoice : std::uint8_t {
  Stay,         ///< that which is in use, until it is lost
  PreferFirst,  ///< that which was added first: it is taken again when it comes back
};

/// Add sessions with their index as they are made; each session's client tells what it hears by the
/// handle_ functions. A request whose channel was lost is repeated only if it may be executed
/// twice, as READ and WRITE may. The old path's target ends the old task when it learns of the
/// loss: two writes to the same blocks must not be under way at once, as for any initiator.
class Multipath {
 public:
  static constexpr unsigned kMaxAttempts = 8;  // policy

  explicit Multipath(MultipathClient& client, PathChoice choice = PathChoice::Stay)
      : client_(client), choice_(choice) {}

  /// The index of the path.
  std::size_t add_path(Session& session);
  /// ShutDown: no path is live or will soon be. InvalidArgument: the id is in use.
  Result<void> submit(const Request& request, bool may_repeat, Instant now);
  /// By task management of the path that has it; a request that no path has ends at once. NotFound;
  /// Busy: another function is under way there.
  Result<void> abort(std::uint64_t id, Instant now);
  /// A path that is live is not taken as long as it is not known where it leads to. Each is usable
  /// at first.
  void set_usable(std::size_t path, bool is_usable, Instant now);

  void handle_outcome(std::size_t path, std::uint64_t id, const Outcome& outcome, Instant now);
  void handle_path_state(std::size_t path, PathState state, Instant now);

  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  /// That was taken last.
  [[nodiscard]] std::size_t active_path() const { return active_; }
  /// That a request would take now; none: it would be held.
  [[nodiscard]] std::optional<std::size_t> next_path() const { return choose(); }

 private:
  struct Pending {
    Request request{};
    bool may_repeat{};
    unsigned attempts{};
    std::size_t path{};  // that has it, if it is not held
  };
  struct Path {
    Session* session{};
    bool is_usable{true};
  };
  [[nodiscard]] bool send(Pending& pending, Instant now);
  [[nodiscard]] std::optional<std::size_t> choose() const;
  [[nodiscard]] bool none_returns() const;
  void end(std::uint64_t id, const Outcome& outcome);
  void resume(Instant now);

  MultipathClient& client_;
  const PathChoice choice_;
  std::vector<Path> paths_;
  std::size_t active_{};
  std::map<std::uint64_t, Pending> pending_;
  std::deque<std::uint64_t> held_;  // while no path is live
};

}  // namespace weft::srp
