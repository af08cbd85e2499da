#pragma once

#include <cstdint>
#include <string>

namespace weft::programs::em {

struct Where {
  std::string host;    ///< empty: this one
  std::string fabric;  ///< empty: the usual one
};

/// `weft em up`: starts the manager on a host, and waits until it manages. Exit status.
[[nodiscard]] int up(const Where& where, const std::string& file, std::uint8_t trap_sl);
/// `weft em load`: gives it another file.
[[nodiscard]] int load(const Where& where, const std::string& file);
/// `weft em down`: ends it; virtual ports stay as they are.
[[nodiscard]] int down(const Where& where);
/// `weft em show`.
[[nodiscard]] int show(const Where& where, bool is_json);

/// On the host, in its namespaces.
[[nodiscard]] int run_manager(const std::string& file, std::uint8_t trap_sl);
[[nodiscard]] int stop_manager();

}  // namespace weft::programs::em
