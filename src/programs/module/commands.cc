#include "programs/module/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "os/run_directory.h"
#include "programs/module/service.h"

namespace weft::programs::modules {
namespace {

/// The weft command beside this program: installed in one folder, in a tree of builds in two.
[[nodiscard]] std::string weft_command() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& candidate : {folder / "weft", folder / ".." / ".." / "cli" / "weft"}) {
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return "weft";
}

[[nodiscard]] std::string fabric_of(const std::string& asked) {
  return asked.empty() ? os::fabric_of_environment() : asked;
}

[[nodiscard]] Result<Place> find(const Target& target) {
  std::vector<Place> places = find_places(fabric_of(target.fabric));
  std::erase_if(places, [&](const Place& place) {
    return place.name != target.name || (!target.host.empty() && place.host != target.host);
  });
  if (places.empty()) {
    return fail(ErrorCode::NotFound, "{} is not loaded{}; `weft module list` says what is",
                target.name, target.host.empty() ? "" : " on " + target.host);
  }
  if (places.size() > 1) {
    std::string hosts;
    for (const Place& place : places) {
      hosts += (hosts.empty() ? "" : ", ") + place.host;
    }
    return fail(ErrorCode::InvalidArgument, "{} is loaded on {}: say --host", target.name, hosts);
  }
  return places.front();
}

[[nodiscard]] Result<Answer> exchange(int socket, const Request& request) {
  if (const auto sent = send_message(socket, encode(request)); !sent) {
    return std::unexpected(sent.error());
  }
  const auto bytes = receive_message(socket);
  if (!bytes) {
    return fail(ErrorCode::Io, "the module's process has ended");
  }
  return decode_answer(*bytes);
}

}  // namespace

int run(const RunOptions& options) {
  if (options.registers_fast) {
    setenv("WEFT_FAST_REGISTRATION", "1", 1);  // for libweft-rdma.so, which opens the device
  }
  if (options.host.empty()) {
    return serve({.file = options.file,
                  .parameters = options.parameters,
                  .shows_debug = options.shows_debug});
  }
  std::error_code error;
  std::vector<std::string> command{weft_command(), "exec"};
  if (!options.fabric.empty()) {
    command.insert(command.end(), {"--name", options.fabric});
  }
  command.insert(
      command.end(),
      {options.host, "--", std::filesystem::read_symlink("/proc/self/exe", error).string(), "run"});
  if (options.shows_debug) {
    command.emplace_back("--debug");
  }
  command.push_back(options.file);
  command.insert(command.end(), options.parameters.begin(), options.parameters.end());
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  return print_error(
      {ErrorCode::Io, fmt::format("{} cannot be run: {}", command.front(), std::strerror(errno))});
}

int list(const std::string& fabric) {
  std::vector<Place> places = find_places(fabric_of(fabric));
  std::ranges::sort(places, {},
                    [](const Place& place) { return std::pair{place.host, place.name}; });
  for (const Place& place : places) {
    const auto socket = connect_to(place);
    const auto answer =
        socket
            ? exchange(socket->get(), {.operation = Operation::Describe, .entry = {}, .text = {}})
            : std::unexpected(socket.error());
    fmt::print("{} {} pid {} entries: {}\n", place.host, place.name,
               socket ? peer_of(socket->get()) : 0,
               answer ? answer->text : "(" + answer.error().reason + ")");
  }
  return 0;
}

int ask(const Target& target, const Request& request) {
  const auto place = find(target);
  if (!place) {
    return print_error(place.error());
  }
  const auto socket = connect_to(*place);
  if (!socket) {
    return print_error(socket.error());
  }
  const auto answer = exchange(socket->get(), request);
  if (!answer) {
    return print_error(answer.error());
  }
  if (!answer->is_done) {
    return print_error({ErrorCode::Io, answer->text});
  }
  fmt::print("{}", answer->text);
  return 0;
}

}  // namespace weft::programs::modules
