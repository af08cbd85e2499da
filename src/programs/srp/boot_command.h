#pragma once

// `weft san-boot`: what boot firmware does with a logical unit of an SRP target. It logs in by
// gPXE's root path, loads the image, and hands the session over in a boot firmware table, by which
// the system that is booted goes on (R-SRPI-9).

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::programs::srp {

struct BootOptions {
  std::string root_path{};
  std::string device{};  ///< as libibverbs has it; empty: the first
  std::string table{};   ///< the file for the table; empty: none
  std::uint64_t load_bytes{};
  std::vector<std::string> command{};  ///< QEMU and its options; empty: nothing is booted
};

CLI::App& add_boot_command(CLI::App& app, BootOptions& options);
/// The program's exit status. Does not return if it becomes QEMU.
[[nodiscard]] int run_boot(const BootOptions& options);

}  // namespace weft::programs::srp
