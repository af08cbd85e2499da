#include "daemon/netlink/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "os/capabilities.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

constexpr std::chrono::milliseconds kPause{50};  // policy

}  // namespace

NetlinkServer::NetlinkServer(asio::io_context& loop, os::UniqueFd listener, Handlers handlers)
    : loop_(loop),
      handlers_(std::move(handlers)),
      sockets_([this](Id socket) { note_news(socket); }),
      listener_(loop, listener.release()),
      pause_(loop) {
  accept();
}

NetlinkServer::~NetlinkServer() {
  while (!connections_.empty()) {
    (*connections_.begin())->end();
  }
}

void NetlinkServer::accept() {
  listener_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) {
      return;
    }
    Accepted last = Accepted::One;
    for (int turn = 0; turn < kAcceptsInTurn && last == Accepted::One; ++turn) {
      last = accept_one();
    }
    if (last != Accepted::NoDescriptors) {
      return accept();
    }
    // Who connects waits until others have closed theirs.
    pause_.expires_after(kPause);
    pause_.async_wait([this](const std::error_code& cancelled) {
      if (!cancelled) {
        accept();
      }
    });
  });
}

NetlinkServer::Accepted NetlinkServer::accept_one() {
  os::UniqueFd fd{accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!fd) {
    return errno == EMFILE || errno == ENFILE ? Accepted::NoDescriptors : Accepted::None;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (is_known && peer.uid == getuid()) {  // only this user can open the directory
    serve(std::move(fd), peer.pid);
  }
  return Accepted::One;
}

void NetlinkServer::serve(os::UniqueFd connection, pid_t pid) {
  auto requester = handlers_.requester_of(pid);
  if (requester->connections >= Requester::kMaxConnections) {
    return handlers_.on_offence(*requester, "connections too many");
  }
  NetlinkConnection::Handlers handlers{
      .find_host = handlers_.find_host,
      .on_request = handlers_.on_request,
      .flush_news = [this] { flush_news(); },
      .on_open = [this](NetlinkConnection& opened, Id socket) { of_socket_[socket] = &opened; },
      .on_offence = handlers_.on_offence,
      .on_end =
          [this](NetlinkConnection& ended) {
            std::erase_if(of_socket_, [&](const auto& entry) { return entry.second == &ended; });
            std::erase_if(connections_, [&](const auto& known) { return known.get() == &ended; });
          },
  };
  const auto made = std::make_shared<NetlinkConnection>(
      loop_, os::PacketSocket{std::move(connection)}, std::move(requester),
      os::may_administer_network(pid), sockets_, std::move(handlers));
  connections_.insert(made);
  made->start();
}

void NetlinkServer::close_host(fabric::NodeIndex host) {
  for (const Id socket : sockets_.sockets_of(host)) {
    if (const auto found = of_socket_.find(socket); found != of_socket_.end()) {
      found->second->end();
    }
  }
}

void NetlinkServer::note_news(Id socket) {
  news_.push_back(socket);
  if (!std::exchange(news_are_posted_, true)) {
    asio::post(loop_, [this] {
      news_are_posted_ = false;
      flush_news();
    });
  }
}

void NetlinkServer::flush_news() {
  for (const Id socket : std::exchange(news_, {})) {
    if (const auto found = of_socket_.find(socket); found != of_socket_.end()) {
      found->second->flush();
    }
  }
}

}  // namespace weft::daemon
