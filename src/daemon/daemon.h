#pragma once

// weftd: keeps one fabric alive. It owns the tables, attaches programs to simulated hosts, connects
// them by lanes, cleans up after their death and answers the `weft` command. It is not on the data
// path and sleeps while nothing changes (docs/ARCHITECTURE.md, decisions 9, 17).

#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/topology.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// Configuration of a daemon.
struct DaemonOptions {
  std::string run;     // run directory, which exists and is private
  std::string fabric;  // name, already validated
  fabric::Topology topology;
  bool has_subnet_manager{true};  // without its own, ports wait in Initialize for another
  std::uint8_t sm_priority{};     // of its own subnet manager, 0 to 15
  std::string sm_port{};          // and where that is, as h2:1; empty: the first HCA port
  std::string ibsim{};            // IbsimLocation, for programs with libumad2sim; empty: none
  bool is_isolating{};            // programs place nothing into each other's memory
  os::UniqueFd lifeline;  // optional: the fabric ends when the other end of this pipe closes
};

/// One running fabric. Creation takes its directory and socket, and removes leftovers of a dead
/// daemon; it fails with Exists if another daemon serves the fabric.
class Daemon {
 public:
  [[nodiscard]] static Result<Daemon> create(DaemonOptions options);
  Daemon(Daemon&&) noexcept;
  Daemon& operator=(Daemon&&) noexcept;
  ~Daemon();

  /// Serves until Down, SIGTERM, SIGINT or the end of the lifeline, then removes the directory.
  void run();

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::daemon
