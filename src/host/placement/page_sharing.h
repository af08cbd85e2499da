#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/time.h"
#include "host/daemon_connection.h"
#include "host/placement/placements.h"
#include "host/progress_thread.h"
#include "os/shareable_pages.h"

namespace weft::host {

/// Makes private memory that a program registers a file in memory, so that peers map it and place
/// into it without a system call (docs/ARCHITECTURE.md, decision 18). Only of a program with one
/// thread, which is inside the registration meanwhile, and while our own threads are held: nobody
/// writes to what is copied. The program cannot tell: when it forks, or its last region there is
/// deregistered, the memory is private again. Threads of the program.
class PageSharing {
 public:
  struct Parts {
    DaemonConnection& daemon;
    ProgressThread& thread;
    Placements& placements;
  };

  explicit PageSharing(const Parts& parts) : parts_(parts) {}
  ~PageSharing();
  PageSharing(const PageSharing&) = delete;
  PageSharing& operator=(const PageSharing&) = delete;

  /// Before the first region; without it nothing is shared.
  void turn_on();

  /// `region` is registered, and has remote access to `memory`. Without locks of the driver.
  void share(const void* region, std::span<const std::byte> memory);
  /// It was registered, and is no more.
  void forget(const void* region);
  /// Everything is private again: the program is about to fork. Regions that are registered later
  /// may be shared.
  void end();

  // Policy: how much a program pays for it, in time and in memory that is copied.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;    ///< of a region
  static constexpr std::size_t kMostAtOnce = std::size_t{256} << 20;  ///< bytes
  static constexpr Duration kFreeTime = Duration::milliseconds(200);  ///< and then
  static constexpr std::int64_t kShareOfTime = 64;                    ///< one part in so many
  static constexpr std::size_t kMostTries = 4'096;  ///< of regions: each may leave more mappings

 private:
  struct Shared {
    os::ShareablePages pages;
    std::set<const void*> regions;
  };

  [[nodiscard]] bool may_share(std::span<const std::byte> memory, Instant now) const;
  void give_back(Shared& shared);

  const Parts parts_;
  bool is_on_{};
  std::mutex lock_;  // guards the rest
  std::vector<Shared> shared_;
  std::size_t bytes_{};
  Instant began_;
  Duration spent_;
  std::size_t tries_{};
};

}  // namespace weft::host
