#include "programs/srp/status_socket.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

namespace weft::programs::srp {

Result<std::unique_ptr<StatusSocket>> StatusSocket::open(asio::io_context& loop,
                                                         std::string_view kind,
                                                         std::function<std::string()> say) {
  auto control = Control::listen(fmt::format("{}{}.{}", kStatusPrefix, kind, getpid()));
  if (!control) {
    return std::unexpected(control.error());
  }
  std::unique_ptr<StatusSocket> made{
      new StatusSocket{loop, *std::move(control), std::move(say)}
  };
  made->wait();
  return made;
}

StatusSocket::~StatusSocket() { release(); }

void StatusSocket::release() {
  for (asio::posix::stream_descriptor& wait : waits_) {
    wait.release();
  }
  waits_.clear();
}

void StatusSocket::wait() {
  for (const int fd : control_.descriptors()) {
    waits_.emplace_back(loop_, fd).async_wait(
        asio::posix::stream_descriptor::wait_read,
        [this, alive = std::weak_ptr<char>{alive_}](const std::error_code& error) {
          if (!error && !alive.expired()) {
            handle();
          }
        });
  }
}

/// Connections come and go inside, so that nobody else may watch their descriptors meanwhile.
void StatusSocket::handle() {
  release();
  control_.handle([this](std::string_view line) {
    return line == "json" ? say_() : std::string{"this is asked for json\n"};
  });
  wait();
}

}  // namespace weft::programs::srp
