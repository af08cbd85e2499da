#pragma once

// Files whose content is made when somebody opens them: counters in /sys/class of hosts. The daemon
// holds a lease on each (os/file_lease.h); who opens one waits until it is written anew. As long as
// a reader has a file open there can be no lease on it, and it is written anew at short intervals.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "os/file_lease.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// Used on the loop's thread only, which must be the one of the first call of keep().
class LiveFiles {
 public:
  using Owner = std::uint32_t;
  /// The content of all files of an owner at this moment, by path.
  using Contents = std::function<std::map<std::string, std::string>(Owner)>;

  LiveFiles(asio::io_context& loop, Contents contents);
  LiveFiles(const LiveFiles&) = delete;
  LiveFiles& operator=(const LiveFiles&) = delete;

  /// Keeps a file from now on, which is open for reading and writing. NotSupported: it cannot have
  /// a lease. OutOfMemory: too many descriptors are used for such files already.
  [[nodiscard]] Result<void> keep(Owner owner, std::string path, os::UniqueFd file);
  /// Closes the files of an owner.
  void forget(Owner owner);

  [[nodiscard]] std::size_t size() const { return files_.size(); }
  /// How many are without a lease now, since somebody has, or had a moment ago, opened them.
  [[nodiscard]] std::size_t opened() const { return open_.size(); }

 private:
  struct File {
    Owner owner{};
    std::string path;
    std::string content;  // as written last
    os::UniqueFd file;
  };

  void wait_for_openers();
  void serve_openers();
  void write(const std::set<int>& which);
  void lease_again_soon();
  void lease_again();

  Contents contents_;
  std::optional<os::LeaseKeeper> keeper_;
  asio::posix::stream_descriptor openers_;
  asio::steady_timer retry_;
  std::chrono::milliseconds pause_{};
  std::map<int, File> files_;  // by descriptor
  std::set<int> open_;         // without a lease, since others have them open
};

}  // namespace weft::daemon
