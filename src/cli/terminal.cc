#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"

namespace weft::cli {

bool wants_colour(int fd) {
  const char* const no_colour = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

std::string coloured(std::string_view text, unsigned color_code, int fd) {
  constexpr unsigned kColorCodes = 6;  // the terminal's eight, without black and white
  return wants_colour(fd) ? fmt::format("\033[{}m{}\033[0m", 31 + color_code % kColorCodes, text)
                          : std::string{text};
}

int print_error(const Error& error) {
  std::fprintf(stderr, "weft: %s\n", error.reason.c_str());
  return kFailed;
}

}  // namespace weft::cli
