#include "cli/fabric_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/fabric_name.h"
#include "cli/topology_file.h"
#include "fabric/topology_net.h"
#include "os/run_directory.h"

namespace weft::cli {

void clear_dead_fabrics() {
  for (const std::string& fabric : os::clear_dead_fabrics(os::run_directory_path())) {
    fmt::print(
        stderr,
        "weft: cleared what fabric {} left behind: its daemon, weftd, did not take it down\n",
        fabric);
  }
}

Result<host::ControlSocket> connect_to(const std::string& named) {
  const auto meant = resolve_fabric_name(named);
  if (!meant) {
    return std::unexpected(meant.error());
  }
  const std::string& fabric = *meant;
  clear_dead_fabrics();
  if (auto checked = os::check_fabric_name(fabric); !checked) {
    return std::unexpected(checked.error());
  }
  const std::string run = os::run_directory_path();
  auto socket = host::ControlSocket::connect(os::control_path(run, fabric));
  if (!socket && socket.error().code == ErrorCode::Refused) {
    const auto others = os::list_fabrics(run);
    return fail(ErrorCode::Refused, "fabric {} is not up; {}", fabric,
                others.empty() ? std::string{"`weft up` starts one"}
                               : fmt::format("known here: {}", fmt::join(others, ", ")));
  }
  return socket;
}

Result<std::string> ask(const std::string& named, uabi::QueryKind kind) {
  return ask(named, uabi::Query{.kind = kind});
}

Result<std::string> ask(const std::string& named, const uabi::Message& message) {
  auto socket = connect_to(named);
  if (!socket) {
    return std::unexpected(socket.error());
  }
  const auto failed = [&](Error error) {
    if (error.code == ErrorCode::Refused) {
      error.reason = fmt::format("{}: its daemon, weftd, has ended or is about to", error.reason);
    }
    return std::unexpected(std::move(error));
  };
  if (auto sent = socket->send(message); !sent) {
    return failed(std::move(sent.error()));
  }
  std::string answer;
  while (true) {
    auto received = socket->receive(kWaitLimit);
    if (!received) {
      return failed(std::move(received.error()));
    }
    if (const auto* refused = received->message.get_if<uabi::Refused>()) {
      return fail(ErrorCode::Refused, "{}", refused->reason);
    }
    if (const auto* text = received->message.get_if<uabi::Text>()) {
      answer += text->text;
      if (text->is_last) {
        return answer;
      }
    }
  }
}

namespace {

[[nodiscard]] Result<fabric::Topology> topology_of(const std::vector<std::string>& words) {
  const std::string description = fmt::format("{}", fmt::join(words, " "));
  if (words.empty()) {
    return fabric::generate_pair();
  }
  if (fabric::names_a_generator(description)) {
    return fabric::generate(description);
  }
  if (words.size() != 1) {
    return fail(ErrorCode::InvalidArgument, "'{}' is not a topology: {}, or a file", description,
                fabric::kGeneratorForms);
  }
  const auto text = read_topology_file(words.front());
  if (!text) {
    return std::unexpected(text.error());
  }
  return fabric::looks_like_net(*text) ? fabric::read_net(*text, words.front())
                                       : fabric::read_topology(*text, words.front());
}

}  // namespace

Result<fabric::Topology> topology_from(const std::vector<std::string>& words,
                                       const LinkOptions& links) {
  auto topology = topology_of(words);
  if (topology) {
    if (auto applied = apply(links, *topology); !applied) {
      return std::unexpected(applied.error());
    }
  }
  return topology;
}

}  // namespace weft::cli
