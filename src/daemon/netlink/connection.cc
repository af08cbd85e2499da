#include "daemon/netlink/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "daemon/netlink/frames.h"
#include "os/clock.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

constexpr std::chrono::milliseconds kBudgetPause{20};  // policy
constexpr std::size_t kOctetsOfPart = 256;  // for the kernel's side that cost one more; policy
constexpr std::size_t kRoom = sizeof(uabi::NetlinkFrameHead) + uabi::kMaxNetlinkDatagram;

}  // namespace

NetlinkConnection::NetlinkConnection(asio::io_context& loop, os::PacketSocket socket,
                                     std::shared_ptr<Requester> requester, bool is_privileged,
                                     node::NetlinkSockets& sockets, Handlers handlers)
    : sockets_(sockets),
      readiness_(loop),
      timer_(loop),
      socket_(std::move(socket)),
      requester_(std::move(requester)),
      is_privileged_(is_privileged),
      handlers_(std::move(handlers)),
      room_(kRoom) {
  ++requester_->connections;
}

NetlinkConnection::~NetlinkConnection() { --requester_->connections; }

void NetlinkConnection::start() {
  readiness_.assign(dup(socket_.fd()));
  wait_for_frames();
}

void NetlinkConnection::wait_for_frames() {
  if (ended_ || is_busy_ || waits_for_frames_) {
    return;
  }
  waits_for_frames_ = true;
  readiness_.async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this()](const std::error_code& error) {
                          self->waits_for_frames_ = false;
                          if (error || self->ended_) {
                            return;
                          }
                          for (int turn = 0; turn < kBatch && self->receive_one(); ++turn) {
                          }
                          if (!self->ended_ && self->requester_->budget.is_empty(os::now())) {
                            self->wait_for_budget();
                          } else {
                            self->wait_for_frames();
                          }
                        });
}

void NetlinkConnection::wait_for_budget() {
  handlers_.on_offence(*requester_, "times more requests than a process may make");
  timer_.expires_after(kBudgetPause);
  timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) {
      self->wait_for_frames();
    }
  });
}

/// False: there is none, or none may be read now.
bool NetlinkConnection::receive_one() {
  if (ended_ || is_busy_ || requester_->budget.is_empty(os::now())) {
    return false;
  }
  auto received = socket_.receive(room_);
  if (!received) {
    if (received.error().code == ErrorCode::Refused) {
      end();
    } else if (received.error().code != ErrorCode::TryAgain) {
      offend("malformed netlink frames");
    }
    return false;
  }
  const auto frame = uabi::parse_netlink_frame(std::span{room_}.first(received->bytes));
  if (!frame || received->descriptors.size() != 1 ||
      id_.has_value() == (frame->head.kind == uabi::NetlinkFrameKind::Open)) {
    offend("malformed netlink frames");
    return false;
  }
  requester_->budget.charge(cost_of(*frame), os::now());
  take(*frame, std::move(received->descriptors.front()));
  return !ended_;
}

void NetlinkConnection::take(const uabi::NetlinkFrame& frame, os::UniqueFd answer_to) {
  if (is_a_send(frame)) {
    return send(frame, std::move(answer_to));
  }
  if (frame.head.kind == uabi::NetlinkFrameKind::SendMany) {
    const SentMany sent = send_many(sockets_, *id_, frame);
    handlers_.flush_news();
    return answer(answer_to, sent.error, sent.taken);
  }
  if (frame.head.kind != uabi::NetlinkFrameKind::Open) {
    return answer(answer_to, change_socket(sockets_, *id_, frame));
  }
  const int error = open(frame);
  answer(answer_to, error);
  if (error != 0) {
    end();
  }
}

int NetlinkConnection::open(const uabi::NetlinkFrame& frame) {
  std::string name(frame.payload.size(), '\0');
  std::ranges::transform(frame.payload, name.begin(),
                         [](std::byte each) { return static_cast<char>(each); });
  if (frame.head.value != uabi::kNetlinkVersion) {
    return -EPROTONOSUPPORT;
  }
  if (frame.head.port != SOCK_RAW && frame.head.port != SOCK_DGRAM) {
    return -ESOCKTNOSUPPORT;
  }
  const auto host = handlers_.find_host(name);
  if (!host) {
    return -EPROTONOSUPPORT;
  }
  id_ = sockets_.open(*host, static_cast<std::uint32_t>(requester_->pid), frame.head.port,
                      is_privileged_);
  if (!id_) {
    return -ENOMEM;
  }
  handlers_.on_open(*this, *id_);
  return 0;
}

void NetlinkConnection::send(const uabi::NetlinkFrame& frame, os::UniqueFd answer_to) {
  const auto sent = sockets_.send(*id_, destination_of(sockets_, *id_, frame), frame.payload);
  handlers_.flush_news();
  if (!sent.is_for_kernel) {
    return answer(answer_to, sent.error);
  }
  requester_->budget.charge(static_cast<std::int64_t>(frame.payload.size() / kOctetsOfPart),
                            os::now());
  is_busy_ = true;
  auto shared = std::make_shared<const os::UniqueFd>(std::move(answer_to));
  handlers_.on_request(*id_, {frame.payload.begin(), frame.payload.end()},
                       [self = shared_from_this(), shared] {
                         self->is_busy_ = false;
                         if (!self->ended_) {
                           self->handlers_.flush_news();  // the answers first
                           self->answer(*shared, 0);
                           self->wait_for_frames();
                         }
                       });
}

/// The descriptor is foreign: nothing is waited for there, and what goes wrong is its sender's
/// loss.
void NetlinkConnection::answer(const os::UniqueFd& to, int error, std::uint32_t taken) const {
  const uabi::NetlinkAnswer answer =
      id_ ? answer_of(sockets_, *id_, error, taken) : uabi::NetlinkAnswer{.error = -error};
  static_cast<void>(!::send(to.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void NetlinkConnection::flush() {
  while (!ended_ && id_ && !waits_for_room_) {
    std::array<uabi::NetlinkFrameHead, kBatch> heads;
    std::array<os::PacketSocket::Parts, kBatch> frames;
    std::size_t count = 0;
    const bool has_packet_info = sockets_.has_option(*id_, node::NetlinkOption::PacketInfo);
    for (const node::NetlinkDatagram& next : sockets_.waiting(*id_)) {
      if (count == heads.size()) {
        break;
      }
      heads.at(count) = head_of(next, has_packet_info);
      frames.at(count) = {std::as_bytes(std::span{&heads.at(count), 1}), next.bytes};
      ++count;
    }
    if (count == 0) {
      return;
    }
    const auto sent = socket_.send_many(std::span{frames}.first(count));
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      return wait_for_room();
    }
    // Sent, or the program is gone, which reading reports.
    for (std::size_t i = 0; i < sent.value_or(count); ++i) {
      sockets_.pop(*id_);
    }
  }
}

void NetlinkConnection::wait_for_room() {
  waits_for_room_ = true;
  readiness_.async_wait(stream_descriptor::wait_write,
                        [self = shared_from_this()](const std::error_code& error) {
                          self->waits_for_room_ = false;
                          if (!error) {
                            self->flush();
                          }
                        });
}

void NetlinkConnection::offend(std::string_view what) {
  handlers_.on_offence(*requester_, what);
  end();
}

void NetlinkConnection::end() {
  if (ended_) {
    return;
  }
  ended_ = true;
  const auto self = shared_from_this();
  std::error_code ignored;
  readiness_.close(ignored);
  timer_.cancel();
  socket_.close();
  if (id_) {
    sockets_.close(*id_);
  }
  handlers_.on_end(*this);
}

}  // namespace weft::daemon
