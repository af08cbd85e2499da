#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "programs/control/on_host.h"
#include "programs/resolver/service.h"

namespace {

using weft::Duration;
namespace programs = weft::programs;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr Duration kStatusWithin = Duration::seconds(5);

struct Options {
  std::string host;
  std::string fabric;
  std::string preload;
  unsigned age_seconds{600};
  unsigned negative_age_ms{1'000};
  unsigned kernel_timeout_ms{};
  bool is_json{};
  bool shows_no_paths{};
};

int print_error(const std::string& reason) {
  fmt::print(stderr, "weft-resolver: {}\n", reason);
  return kFailed;
}

int serve(const Options& options) {
  programs::resolver::ServiceOptions service_options;
  service_options.resolver.paths.age = Duration::seconds(options.age_seconds);
  service_options.resolver.paths.negative_age = Duration::milliseconds(options.negative_age_ms);
  service_options.kernel_timeout_ms = options.kernel_timeout_ms;
  service_options.shows_paths = !options.shows_no_paths;
  if (!options.preload.empty()) {
    std::ifstream file{options.preload};
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
      return print_error(fmt::format("{} cannot be read", options.preload));
    }
    auto known = weft::resolver::parse_preload(text.str());
    if (!known) {
      return print_error(fmt::format("{}: {}", options.preload, known.error().reason));
    }
    service_options.preload = *std::move(known);
  }
  const auto service = programs::resolver::Service::start(service_options);
  if (!service) {
    return print_error(service.error().reason);
  }
  fmt::print("the resolver listens\n");
  std::fflush(stdout);
  const auto ended = (*service)->run();
  return ended ? 0 : print_error(ended.error().reason);
}

int show_status(bool is_json) {
  const auto said =
      programs::ask(programs::resolver::kServiceName, is_json ? "json" : "status", kStatusWithin);
  if (!said) {
    return print_error(said.error().reason);
  }
  fmt::print("{}", *said);
  return 0;
}

int watch() {
  const auto connection = programs::watch(programs::resolver::kServiceName);
  if (!connection) {
    return print_error(connection.error().reason);
  }
  std::array<char, 4'096> buffer{};
  while (true) {
    const ssize_t length = ::read(connection->get(), buffer.data(), buffer.size());
    if (length <= 0) {
      return print_error("the resolver has ended");
    }
    fmt::print("{}", std::string_view{buffer.data(), static_cast<std::size_t>(length)});
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"A resolver on a simulated host: its kernel asks it for paths before it asks SA."};
  app.name("weft resolver");
  app.footer("Try:  weft up star 4;  weft resolver --host h1 &  weft resolver status --host h1");
  Options options;
  const auto on_host = [&](CLI::App* command) {
    command->add_option("--host", options.host, "On this host; otherwise the one it runs on");
    command->add_option("--name", options.fabric, "Name of the fabric");
    return command;
  };
  on_host(&app);
  app.add_option("--preload", options.preload, "File of addresses, names and paths");
  app.add_option("--age", options.age_seconds, "Seconds for which a path is remembered");
  app.add_option("--negative-age", options.negative_age_ms,
                 "Milliseconds for which it is remembered that SA has no path");
  app.add_option("--kernel-timeout", options.kernel_timeout_ms,
                 "Milliseconds for which the kernel is to wait for it, from 100 to 200000");
  app.add_flag("--no-shared-memory", options.shows_no_paths,
               "Tell paths by netlink alone, and show none to who may read them by itself");
  auto* const status = on_host(app.add_subcommand("status", "Counters, and what is remembered"));
  status->add_flag("--json", options.is_json, "As JSON");
  auto* const watches = on_host(app.add_subcommand("watch", "A line of JSON for each change"));
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (!options.host.empty()) {
    return programs::run_on_host(options.host, options.fabric,
                                 programs::without_host(count, arguments));
  }
  if (*status) {
    return show_status(options.is_json);
  }
  return *watches ? watch() : serve(options);
}
