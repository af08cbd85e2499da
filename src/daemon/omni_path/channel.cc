#include "daemon/omni_path/channel.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace weft::daemon {

using asio::posix::stream_descriptor;

OmniPathChannel::OmniPathChannel(asio::io_context& loop, os::UniqueFd socket,
                                 node::OmniPathUsers& users, node::OmniPathUserId user)
    : readiness_(loop), socket_(std::move(socket)), users_(users), user_(user) {}

void OmniPathChannel::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  readiness_.assign(dup(socket_.fd()));
  wait_for_packets();
}

void OmniPathChannel::wait_for_packets() {
  if (std::exchange(waits_for_packets_, true)) {
    return;
  }
  readiness_.async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this()](const std::error_code& error) {
                          self->waits_for_packets_ = false;
                          if (!error && self->socket_) {
                            self->receive();
                          }
                        });
}

void OmniPathChannel::receive() {
  for (int turn = 0; turn < kBatches && users_.has_room() && receive_one(); ++turn) {
  }
  if (!socket_) {
    return;
  }
  handlers_.on_sent();
  if (socket_ && users_.has_room()) {  // else flush() reads on
    wait_for_packets();
  }
}

/// Returns false if nothing is queued or the peer is gone.
bool OmniPathChannel::receive_one() {
  auto received = socket_.receive();
  if (!received && received.error().code == ErrorCode::TryAgain) {
    return false;
  }
  auto* const batch = received ? received->message.get_if<uabi::OmniPathPackets>() : nullptr;
  if (batch == nullptr) {
    if (received || received.error().code != ErrorCode::Refused) {
      handlers_.on_offence("malformed batches of packets");
    }
    close();
    return false;
  }
  for (uabi::OmniPathOctets& packet : batch->packets) {
    if (!users_.send(user_, std::move(packet.octets))) {
      handlers_.on_offence("16B packets that are none, or of a kind that it may not send");
    }
  }
  return true;
}

/// None: nothing waits.
std::optional<uabi::OmniPathPackets> OmniPathChannel::next_batch() {
  uabi::OmniPathPackets batch{.lost = users_.lost(user_), .packets = {}};
  std::size_t room = uabi::kMaxOmniPathBatchBytes;
  for (std::size_t bytes = users_.next_bytes(user_);
       bytes != 0 && bytes <= room && batch.packets.size() < uabi::kMaxOmniPathPackets;
       bytes = users_.next_bytes(user_)) {
    room -= bytes;
    batch.packets.push_back({.octets = users_.take_next(user_)});
  }
  return batch.packets.empty() ? std::nullopt : std::optional{std::move(batch)};
}

void OmniPathChannel::flush() {
  while (socket_ && !waits_for_room_) {
    if (!unsent_ && !(unsent_ = next_batch())) {
      break;
    }
    const auto sent = socket_.send(*unsent_);
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      wait_for_room();
      break;
    }
    unsent_.reset();  // sent, or lost with the program
  }
  if (socket_ && users_.has_room()) {
    wait_for_packets();
  }
}

void OmniPathChannel::wait_for_room() {
  waits_for_room_ = true;
  readiness_.async_wait(stream_descriptor::wait_write,
                        [self = shared_from_this()](const std::error_code& error) {
                          self->waits_for_room_ = false;
                          if (!error) {
                            self->flush();
                          }
                        });
}

void OmniPathChannel::close() {
  std::error_code ignored;
  readiness_.close(ignored);
  socket_.close();
}

}  // namespace weft::daemon
