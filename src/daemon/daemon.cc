#include "daemon/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/daemon_impl.h"
#include "host/run_directory.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

/// The fabric's directory with its lock, which dies with its holder: a directory whose lock is free
/// belongs to nobody.
[[nodiscard]] Result<host::UniqueFd> take_directory(const DaemonOptions& options) {
  const auto guard = host::lock_run_directory(options.run);
  if (!guard) {
    return std::unexpected(guard.error());
  }
  const std::string directory = host::fabric_directory(options.run, options.fabric);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::Io, "{}: {}", directory, std::strerror(errno));
  }
  const std::string path = host::lock_path(options.run, options.fabric);
  host::UniqueFd lock{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::Exists,
                "fabric {} is up already; `weft down --name {}` ends it, --name chooses another",
                options.fabric, options.fabric);
  }
  return lock;
}

}  // namespace

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::Daemon(Daemon&&) noexcept = default;
Daemon& Daemon::operator=(Daemon&&) noexcept = default;
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }

Result<Daemon> Daemon::create(DaemonOptions options) {
  if (auto named = host::check_fabric_name(options.fabric); !named) {
    return std::unexpected(named.error());
  }
  auto lock = take_directory(options);
  if (!lock) {
    return std::unexpected(lock.error());
  }
  auto fabric = node::Fabric::create(options.topology);
  if (!fabric) {
    return std::unexpected(fabric.error());
  }
  const std::string socket = host::control_path(options.run, options.fabric);
  unlink(socket.c_str());
  auto listener = host::listen_at(socket);
  if (!listener) {
    return std::unexpected(listener.error());
  }
  return Daemon{std::make_unique<Impl>(std::move(options), std::move(*fabric), std::move(*lock),
                                       std::move(*listener))};
}

Daemon::Impl::Impl(DaemonOptions options, std::unique_ptr<node::Fabric> fabric, host::UniqueFd lock,
                   host::UniqueFd listener)
    : options_(std::move(options)),
      directory_(host::fabric_directory(options_.run, options_.fabric)),
      fabric_(std::move(fabric)),
      lock_(std::move(lock)),
      listener_(loop_, listener.release()),
      lifeline_(loop_),
      signals_(loop_, SIGTERM, SIGINT),
      ledger_(fabric_->builder().ports().size()) {
  publish();
}

Daemon::Impl::~Impl() {
  const auto guard = host::lock_run_directory(options_.run);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void Daemon::Impl::run() {
  accept();
  signals_.async_wait([this](const std::error_code& error, int) {
    if (!error) {
      stop();
    }
  });
  if (options_.lifeline) {
    lifeline_.assign(options_.lifeline.release());
    lifeline_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
      if (!error) {
        stop();
      }
    });
  }
  loop_.run();
}

/// Ends the loop; clients see their connections close.
void Daemon::Impl::stop() { loop_.stop(); }

void Daemon::Impl::accept() {
  listener_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) {
      return;
    }
    while (true) {
      host::UniqueFd fd{accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (!fd) {
        break;
      }
      ucred peer{};
      socklen_t size = sizeof peer;
      const bool known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
      if (!known || peer.uid != getuid()) {
        continue;  // the directory is closed to others; who got in anyway is not served
      }
      auto client = std::make_shared<Client>(loop_, host::ControlSocket{std::move(fd)}, peer.pid);
      clients_.insert(client);
      client->start(
          [this](Client& from, host::Received received) { handle(from, std::move(received)); },
          [this](Client& from) { handle_end(from); });
    }
    accept();
  });
}

void Daemon::Impl::handle(Client& client, host::Received received) {
  const uabi::Message& message = received.message;
  const bool is_program = client.process.has_value();
  if (const auto* hello_ = std::get_if<uabi::Hello>(&message); hello_ != nullptr && !is_program) {
    hello(client, *hello_);
  } else if (const auto* lane = std::get_if<uabi::OpenLane>(&message); lane && is_program) {
    open_lane(client, *lane);
  } else if (const auto* join = std::get_if<uabi::JoinGroup>(&message); join && is_program) {
    join_group(client, *join);
  } else if (const auto* leave = std::get_if<uabi::LeaveGroup>(&message); leave && is_program) {
    leave_group(client, *leave);
  } else if (const auto* ready = std::get_if<uabi::TapReady>(&message); ready && is_program) {
    tap_ready(client, ready->capture);
  } else if (const auto* query_ = std::get_if<uabi::Query>(&message); query_ && !is_program) {
    query(client, *query_);
  } else if (const auto* capture = std::get_if<uabi::StartCapture>(&message);
             capture && !is_program) {
    start_capture(client, *capture);
  } else if (std::holds_alternative<uabi::Down>(message) && !is_program) {
    client.send(uabi::Text{.is_last = true, .text = "down"});
    stop();
  } else {
    client.send(uabi::Refused{"a message that this client may not send"});
    client.end();
  }
}

void Daemon::Impl::handle_end(Client& client) {
  end_captures(client);
  forget_program(client);
  std::erase_if(clients_, [&](const auto& known) { return known.get() == &client; });
}

}  // namespace weft::daemon
