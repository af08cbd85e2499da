#include "programs/load/load_options.h"

namespace weft::programs::load {

void add_load_options(CLI::App& command, LoadOptions& options) {
  command.add_option("--sessions", options.sessions, "Each an initiator of its own")
      ->default_val(options.sessions)
      ->check(CLI::Range(1, 1024));
  command.add_option("--depth", options.depth, "Commands under way, of each session")
      ->default_val(options.depth)
      ->check(CLI::Range(1, 1024));
  command.add_option("--bytes", options.bytes, "Of each command")
      ->default_val(options.bytes)
      ->check(CLI::Range(512, 16 << 20));
  command.add_option("--seconds", options.seconds, "How long")
      ->default_val(options.seconds)
      ->check(CLI::Range(1, 3600));
  command.add_flag("--write", options.writes, "Writes what is in memory over the unit's content");
  command.add_flag("--sequential", options.is_sequential, "One place after the other");
  command
      .add_option("--fast-fail", options.fast_fail_seconds,
                  "Seconds until a session is given up, after its connection was lost")
      ->default_val(options.fast_fail_seconds)
      ->check(CLI::Range(1, 600));
  command.add_flag("--json", options.is_json, "As JSON");
}

}  // namespace weft::programs::load
