#include "compat/ibumad/requests.h"

#include <cstdio>
#include <cstdlib>

#include "host/process.h"
#include "os/run_directory.h"

namespace weft::compat {
namespace {

/// Policy: the daemon answers within microseconds; it takes longer only if the machine is in
/// trouble.
constexpr Duration kWaitLimit = Duration::seconds(10);

}  // namespace

std::string node_of_environment() { return host::options_of_environment().host; }

Result<host::ControlSocket> connect_to_daemon() {
  const host::ProcessOptions options = host::options_of_environment();
  return host::ControlSocket::connect(os::control_path(options.run, options.fabric));
}

Result<host::Received> exchange(const host::ControlSocket& daemon, const uabi::Message& question) {
  if (auto sent = daemon.send(question); !sent) {
    return std::unexpected(sent.error());
  }
  auto received = daemon.receive(kWaitLimit);
  if (received && received->message.holds<uabi::Refused>()) {
    return fail(ErrorCode::NotFound, "{}", received->message.get<uabi::Refused>().reason);
  }
  return received;
}

void explain(std::string_view reason) {
  static const bool wanted = [] {
    const char* const value = std::getenv("WEFT_EXPLAIN");
    return value != nullptr && *value != '\0' && *value != '0';
  }();
  if (wanted) {
    complain(reason);
  }
}

void complain(std::string_view reason) {
  std::fprintf(stderr, "weft: %.*s\n", static_cast<int>(reason.size()), reason.data());
}

}  // namespace weft::compat
