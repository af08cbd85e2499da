#include "daemon/ibsim/udp_owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace weft::daemon {
namespace {

template <class Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

/// A row of the table. Columns: number, `address:port` of both ends, state, queues, timer,
/// retransmissions, user, timeout, inode.
struct Row {
  std::uint16_t port{};
  uid_t user{};
  std::uint64_t inode{};
};

[[nodiscard]] std::optional<Row> read_row(const std::string& line) {
  std::istringstream words{line};
  std::string skipped;
  std::string local;
  std::string user;
  std::string inode;
  words >> skipped >> local >> skipped >> skipped >> skipped >> skipped >> skipped >> user >>
      skipped >> inode;
  const std::size_t colon = local.find(':');
  if (!words || colon == std::string::npos) {
    return std::nullopt;
  }
  const auto port = number_in<std::uint16_t>(std::string_view{local}.substr(colon + 1), 16);
  const auto uid = number_in<uid_t>(user);
  const auto number = number_in<std::uint64_t>(inode);
  return port && uid && number ? std::optional{Row{*port, *uid, *number}} : std::nullopt;
}

[[nodiscard]] bool has_open(const std::filesystem::path& process, const std::string& what) {
  std::error_code error;
  for (std::filesystem::directory_iterator each{process / "fd", error}, end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(each->path(), gone) == what && !gone) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> find_udp_socket(std::istream& table, std::uint16_t port, uid_t user) {
  std::optional<std::uint64_t> found;
  for (std::string line; std::getline(table, line);) {
    const auto row = read_row(line);
    if (!row || row->port != port) {
      continue;
    }
    if (row->user != user || found) {
      return std::nullopt;
    }
    found = row->inode;
  }
  return found;
}

std::optional<pid_t> find_udp_owner(std::uint16_t port) {
  std::ifstream table{"/proc/net/udp"};
  const auto inode = find_udp_socket(table, port, getuid());
  if (!inode) {
    return std::nullopt;
  }
  const std::string what = fmt::format("socket:[{}]", *inode);
  std::error_code error;
  for (std::filesystem::directory_iterator each{"/proc", error}, end; !error && each != end;
       each.increment(error)) {
    const auto process = number_in<pid_t>(each->path().filename().string());
    if (process && has_open(each->path(), what)) {
      return process;
    }
  }
  return std::nullopt;
}

}  // namespace weft::daemon
