// A peer that sends arbitrary segments and ACKs. Checks that a receiver stays within its limits and
// returns what was sent, that a sender terminates, and that each segment gets at most one answer.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "mad/rmpp_receiver.h"
#include "mad/rmpp_sender.h"
#include "mad/testing/script.h"
#include "wire/mad/sa_mad.h"

namespace weft::mad {
namespace {

constexpr std::size_t kMessageBytes = 4'000;
constexpr std::uint32_t kWindow = 5;
constexpr std::size_t kSegmentBytes = wire::kSaDataBytes;

[[nodiscard]] MadMessage table() {
  MadMessage message;
  message.set_header({.mgmt_class = wire::ManagementClass::SubnAdm,
                      .class_version = 2,
                      .method = wire::MadMethod::GetTableResp});
  message.is_rmpp = true;
  return message;
}

/// Mostly small numbers, as are valid within a window.
[[nodiscard]] std::uint32_t number(Script& script) {
  const std::uint32_t octet = script.next();
  return octet < 0xF0 ? octet : octet << 24 | std::uint32_t{script.next()} << 16 | 0xFFFF;
}

[[nodiscard]] wire::Rmpp header(Script& script) {
  const std::uint8_t flags = script.next();
  wire::Rmpp rmpp{.version = wire::kRmppVersion,
                  .type = wire::RmppType::Data,
                  .response_time = 0,
                  .is_last = (flags & 1) != 0,
                  .is_first = (flags & 2) != 0,
                  .is_active = true,
                  .status = wire::RmppStatus::Normal,
                  .data1 = number(script),
                  .data2 = number(script)};
  if ((flags & 0x80) != 0) {
    rmpp.version = script.next();
    rmpp.type = static_cast<wire::RmppType>(script.next());
    rmpp.status = static_cast<wire::RmppStatus>(script.next());
  }
  return rmpp;
}

void receive(Script& script) {
  Instant now;
  RmppReceiver receiver{
      wire::ManagementClass::SubnAdm,
      {.window = kWindow, .message_bytes = kMessageBytes, .total_time = Duration::seconds(1)},
      now
  };
  bool was_taken = false;
  while (!script.is_over()) {
    const wire::Rmpp rmpp = header(script);
    MadBytes mad = table().mad;
    std::ranges::fill(std::span{mad}.subspan(wire::kSizeOf<wire::SaHeader>),
                      static_cast<std::byte>(rmpp.data1));
    set_rmpp(mad, rmpp);
    const auto answer = receiver.handle_data(mad);
    require(!answer || answer->type == wire::RmppType::Ack ||
            answer->type == wire::RmppType::Stop || answer->type == wire::RmppType::Abort);
    require(!answer || answer->type != wire::RmppType::Ack || answer->data1 <= answer->data2);
    require(receiver.bytes_held() <= kMessageBytes + (kWindow + 1) * kSegmentBytes);
    require((receiver.state() == RmppReceiver::State::Failed) ==
            (receiver.failure() != wire::RmppStatus::Normal));
    if (receiver.state() == RmppReceiver::State::Complete && !was_taken) {
      was_taken = true;
      const MadMessage message = receiver.take();
      for (std::size_t i = 0; i < message.data.size(); ++i) {
        require(message.data[i] == static_cast<std::byte>(i / kSegmentBytes + 1));
      }
    }
    if (script.next() == 0xFF) {
      now = now + Duration::milliseconds(400);
      require(!receiver.handle_timeout(now) || receiver.state() == RmppReceiver::State::Failed);
    }
  }
}

void send(Script& script) {
  Instant now;
  MadMessage message = table();
  message.data.resize(std::size_t{script.next()} * 16);
  const std::size_t bytes = message.data.size();
  RmppSender sender{
      std::move(message),
      {.response_time = Duration::milliseconds(10),
                       .retries = 3,
                       .total_time = Duration::seconds(1),
                       .window = kWindow},
      now
  };
  require(sender.segments() ==
          std::max<std::size_t>(1, (bytes + kSegmentBytes - 1) / kSegmentBytes));
  unsigned rounds = 0;
  while (sender.state() == RmppSender::State::Sending && ++rounds < 1'000) {
    unsigned segments = 0;
    while (const auto segment = sender.next_segment(now)) {
      const wire::Rmpp rmpp = rmpp_of(*segment);
      require(rmpp.data1 >= 1 && rmpp.data1 <= sender.segments());
      require(rmpp.is_last == (rmpp.data1 == sender.segments()));
      require(++segments <= kWindow);
    }
    if (script.is_over()) {  // no more input: time out
      now = sender.deadline();
      sender.handle_timeout(now);
    } else {
      sender.handle_ack(header(script), now);
    }
  }
  require(sender.state() != RmppSender::State::Sending || rounds == 1'000);
  require(sender.state() == RmppSender::State::Sending || sender.deadline() == Instant::never());
}

}  // namespace
}  // namespace weft::mad

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  if (script.next() % 2 == 0) {
    weft::mad::receive(script);
  } else {
    weft::mad::send(script);
  }
  return 0;
}
