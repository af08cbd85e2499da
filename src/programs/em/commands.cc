#include "programs/em/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "programs/control/control.h"
#include "programs/control/on_host.h"
#include "programs/em/service.h"
#include "programs/em/switches_file.h"
#include "programs/host/background.h"

namespace weft::programs::em {
namespace {

constexpr int kFailed = 1;
constexpr Duration kAskWithin = Duration::seconds(5);  // policy

[[nodiscard]] int print_error(std::string_view reason) {
  fmt::print(stderr, "weft-em: {}\n", reason);
  return kFailed;
}

[[nodiscard]] std::string whole_path(const std::string& file) {
  std::error_code error;
  const auto path = std::filesystem::absolute(file, error);
  return error ? file : path.string();
}

[[nodiscard]] Result<std::string> ask_manager(const std::string& line) {
  auto said = ask(kServiceName, line, kAskWithin);
  if (!said && said.error().code == ErrorCode::NotFound) {
    return fail(ErrorCode::NotFound, "no Ethernet Manager runs on this host: weft em up HOST FILE");
  }
  return said;
}

}  // namespace

int up(const Where& where, const std::string& file, std::uint8_t trap_sl) {
  if (const auto read = read_switches(file); !read) {
    return print_error(read.error().reason);
  }
  return start_on_all({where.host}, where.fabric,
                      {"run", whole_path(file), "--trap-sl", std::to_string(trap_sl)});
}

int load(const Where& where, const std::string& file) {
  if (!where.host.empty()) {
    if (const auto read = read_switches(file); !read) {
      return print_error(read.error().reason);
    }
    return run_on_host(where.host, where.fabric, {"load-here", whole_path(file)});
  }
  const auto said = ask_manager("load " + whole_path(file));
  if (!said || *said != "loaded\n") {
    return print_error(said ? std::string_view{*said}.substr(0, said->find('\n'))
                            : std::string_view{said.error().reason});
  }
  return 0;
}

int down(const Where& where) { return run_on_all({where.host}, where.fabric, {"stop"}); }

int show(const Where& where, bool is_json) {
  if (!where.host.empty()) {
    std::vector<std::string> words{"show"};
    if (is_json) {
      words.emplace_back("--json");
    }
    return run_on_host(where.host, where.fabric, words);
  }
  const auto said = ask_manager(is_json ? "show json" : "show");
  if (!said) {
    return print_error(said.error().reason);
  }
  fmt::print("{}", *said);
  return 0;
}

int run_manager(const std::string& path, std::uint8_t trap_sl) {
  auto file = read_switches(path);
  if (!file) {
    return print_error(file.error().reason);
  }
  const auto lock = take_service(kServiceName, [] { return false; });
  if (!lock) {
    return print_error(lock.error().reason);
  }
  const std::size_t switches = file->switches.size();
  const std::size_t hosts = file->hosts.size();
  const auto service = Service::start(*std::move(file), trap_sl);
  if (!service) {
    return print_error(service.error().reason);
  }
  const auto ended = (*service)->run([&] {
    fmt::print("manages {} virtual switches on {} hosts\n", switches, hosts);
    std::fflush(stdout);
    leave_caller(kServiceName);
  });
  return ended ? 0 : print_error(ended.error().reason);
}

int stop_manager() {
  const auto stopped = stop_service(kServiceName);
  return stopped ? 0 : print_error(stopped.error().reason);
}

}  // namespace weft::programs::em
