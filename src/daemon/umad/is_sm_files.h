#pragma once

// The files that stand for the kernel's issm devices: while a program has that of a port open, a
// subnet manager runs there. Each is a FIFO, so that the daemon sees readers come
// and go, the dead among them.

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

class IsSmFiles {
 public:
  using Handler = std::function<void(fabric::PortIndex)>;

  IsSmFiles(asio::io_context& loop, Handler on_change);
  IsSmFiles(const IsSmFiles&) = delete;
  IsSmFiles& operator=(const IsSmFiles&) = delete;

  /// Makes the file of a port, or finds it.
  [[nodiscard]] Result<void> watch(fabric::PortIndex port, const std::string& path);
  /// A program has that of the port open.
  [[nodiscard]] bool is_held(fabric::PortIndex port) const;

 private:
  struct File {
    fabric::PortIndex port;
    std::string path;
    std::unique_ptr<asio::posix::stream_descriptor> held;  // our end, while there is a reader
    os::UniqueFd stand_in;                                 // at the path meanwhile, with a lease
  };

  void wait_for_openings();
  void look(File& file);
  void wait_for_end(File& file);
  void occupy(File& file);
  void vacate(File& file);
  void renew_stand_ins();

  asio::io_context& loop_;
  Handler on_change_;
  asio::posix::stream_descriptor openings_;  // inotify
  asio::steady_timer renewal_;
  std::map<int, File> files_;  // by watch
};

}  // namespace weft::daemon
