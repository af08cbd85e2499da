#pragma once

// Stand-ins for the kernel's issm devices: while a program has a port's file open, the port is
// marked as running a subnet manager. Each is a FIFO, so that the daemon notices when readers open
// and close it, including by dying.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/tables.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// Creates the files and watches their readers. Used on the daemon's thread only.
class IsSmFiles {
 public:
  using Handler = std::function<void(fabric::PortIndex)>;

  IsSmFiles(asio::io_context& loop, Handler on_change);
  IsSmFiles(const IsSmFiles&) = delete;
  IsSmFiles& operator=(const IsSmFiles&) = delete;

  /// Creates the port's file, or reuses an existing one.
  [[nodiscard]] Result<void> watch(fabric::PortIndex port, const std::string& path);
  /// True while a program has the port's file open.
  [[nodiscard]] bool is_held(fabric::PortIndex port) const;

 private:
  struct File {
    fabric::PortIndex port;
    std::string path;
    std::unique_ptr<asio::posix::stream_descriptor> held;  // our end, while there is a reader
    os::UniqueFd placeholder;                              // at the path meanwhile, with a lease
  };

  void wait_for_openings();
  void refresh(File& file);
  void wait_for_end(File& file);
  void install_placeholder(File& file);
  void remove_placeholder(File& file);
  void renew_placeholders();

  asio::io_context& loop_;
  Handler on_change_;
  asio::posix::stream_descriptor openings_;  // inotify
  asio::steady_timer renewal_;
  std::map<int, File> files_;  // by inotify watch
};

}  // namespace weft::daemon
