#pragma once

// One mapping for each file, in builds for the thread sanitizer only. It knows memory by address:
// what a thread publishes in one mapping orders nothing for a thread that reads another mapping of
// the same file. Tests run several processes of a fabric as one program, and there each file is
// mapped once, so that the sanitizer checks what processes do to each other, too.

#include "base/sanitizers.h"

#if WEFT_THREAD_SANITIZER

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <tuple>

namespace weft::os::tsan {

class Mappings {
 public:
  /// mmap of a whole file.
  [[nodiscard]] void* map(int file, const struct stat& status, int protection) {
    const std::lock_guard guard{lock_};
    if (getpid() != process_) {  // a child of fork() inherits no mapping
      by_file_.clear();
      process_ = getpid();
    }
    Shared& shared = by_file_[{status.st_dev, status.st_ino, protection}];
    if (shared.users == 0) {
      shared.address =
          mmap(nullptr, static_cast<std::size_t>(status.st_size), protection, MAP_SHARED, file, 0);
    }
    shared.users += shared.address != MAP_FAILED ? 1 : 0;
    return shared.address;
  }

  /// munmap, by the last user.
  void unmap(void* address, std::size_t size) {
    const std::lock_guard guard{lock_};
    for (auto& [file, shared] : by_file_) {
      if (shared.users != 0 && shared.address == address) {
        if (--shared.users == 0) {
          munmap(address, size);
          by_file_.erase(file);
        }
        return;
      }
    }
    munmap(address, size);
  }

 private:
  struct Shared {
    void* address{};
    std::size_t users{};
  };
  std::mutex lock_;
  pid_t process_{getpid()};
  std::map<std::tuple<dev_t, ino_t, int>, Shared> by_file_;
};

/// Never destroyed: threads may outlive main().
[[nodiscard]] inline Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

}  // namespace weft::os::tsan

#endif
