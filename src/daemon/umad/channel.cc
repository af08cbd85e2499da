#include "daemon/umad/channel.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "os/clock.h"
#include "os/shared_memory.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

[[nodiscard]] uabi::UmadHeader header_of(const node::UmadReceived& received) {
  const mad::MadAddress& from = received.envelope.address;
  const mad::GlobalRoute global = from.global.value_or(mad::GlobalRoute{});
  return {.agent = received.envelope.agent,
          .status = static_cast<std::uint32_t>(received.error),
          .timeout_ms = received.envelope.timeout_ms,
          .retries = received.envelope.retries,
          .qpn = from.qp,
          .lid = from.lid,
          .sl = from.sl,
          .path_bits = from.path_bits,
          .pkey_index = received.envelope.pkey_index,
          .has_grh = from.global.has_value(),
          .hop_limit = global.hop_limit,
          .traffic_class = global.traffic_class,
          .flow_label = global.flow_label,
          .gid = global.dgid};
}

}  // namespace

node::UmadEnvelope envelope_of(const uabi::UmadHeader& header) {
  node::UmadEnvelope envelope{.agent = header.agent,
                              .timeout_ms = header.timeout_ms,
                              .retries = header.retries,
                              .pkey_index = header.pkey_index,
                              .address = {}};
  mad::MadAddress& to = envelope.address;
  to.lid = Lid{header.lid.value() & 0xFFFF};
  to.sl = ServiceLevel{static_cast<std::uint8_t>(header.sl.value() & 0xF)};
  to.qp = Qpn{header.qpn.value() & 0xFF'FFFF};
  to.path_bits = header.path_bits & 0x7F;
  if (header.has_grh) {
    to.global = mad::GlobalRoute{.dgid = header.gid,
                                 .flow_label = header.flow_label & 0xF'FFFF,
                                 .hop_limit = header.hop_limit,
                                 .traffic_class = header.traffic_class};
  }
  return envelope;
}

UmadChannel::UmadChannel(asio::io_context& loop, os::UniqueFd socket,
                         const node::UmadPortAccess& access)
    : readiness_(loop), socket_(std::move(socket)) {
  file_.emplace(access);
}

void UmadChannel::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  readiness_.assign(dup(socket_.fd()));
  wait_for_mads();
}

void UmadChannel::wait_for_mads() {
  readiness_.async_wait(stream_descriptor::wait_read,
                        [self = shared_from_this()](const std::error_code& error) {
                          if (error) {
                            return;
                          }
                          for (int turn = 0; turn < kBatch && self->receive_one(); ++turn) {
                          }
                          if (self->socket_) {
                            self->handlers_.on_sent();
                            self->wait_for_mads();
                          }
                        });
}

/// Returns false if no MAD is queued or the peer is gone.
bool UmadChannel::receive_one() {
  const auto received = socket_.receive();
  if (received) {
    if (take(*received)) {
      return true;
    }
  } else if (received.error().code == ErrorCode::TryAgain) {
    return false;
  } else if (received.error().code == ErrorCode::Refused) {
    close();
    return false;
  }
  handlers_.on_offence("malformed MADs");
  close();
  return false;
}

bool UmadChannel::take(const host::Received& received) {
  if (const auto* const whole = received.message.get_if<uabi::UmadMad>()) {
    file_->send(envelope_of(whole->header), whole->mad, os::now());
    return true;
  }
  const auto* const elsewhere = received.message.get_if<uabi::LongUmadMad>();
  if (elsewhere == nullptr) {
    return false;
  }
  const auto mapped = os::map_published(received.descriptors.front(), uabi::kMaxMadBytes);
  if (!mapped || mapped->bytes().size() != elsewhere->length) {
    return false;
  }
  file_->send(envelope_of(elsewhere->header), mapped->bytes(), os::now());
  return true;
}

Result<void> UmadChannel::deliver(const node::UmadReceived& received) {
  if (received.mad.size() <= uabi::kMaxMadBytesInMessage) {
    return socket_.send(uabi::UmadMad{.header = header_of(received), .mad = received.mad});
  }
  const auto file = os::publish_memory("weft-mad", received.mad);
  if (!file) {
    return std::unexpected(file.error());
  }
  const int descriptor = file->get();
  return socket_.send(uabi::LongUmadMad{.header = header_of(received),
                                        .length = static_cast<std::uint32_t>(received.mad.size())},
                      {&descriptor, 1});
}

void UmadChannel::flush() {
  while (socket_ && !waits_for_room_ && !file_->is_empty()) {
    if (const auto sent = deliver(file_->front());
        !sent && sent.error().code == ErrorCode::TryAgain) {
      return wait_for_room();
    }
    file_->pop();  // sent, or lost as any MAD may be
  }
}

void UmadChannel::wait_for_room() {
  waits_for_room_ = true;
  readiness_.async_wait(stream_descriptor::wait_write,
                        [self = shared_from_this()](const std::error_code& error) {
                          self->waits_for_room_ = false;
                          if (!error) {
                            self->flush();
                          }
                        });
}

void UmadChannel::end() {
  close();
  file_.reset();
}

void UmadChannel::close() {
  std::error_code ignored;
  readiness_.close(ignored);
  socket_.close();
}

}  // namespace weft::daemon
