// Frames of netlink sockets, as programs send them, applied to the sockets of two hosts as by the
// daemon, without its loop: any bytes are refused or have their effect, what must hold between
// frames does, and what the kernel's side answers is whole messages.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "base/testing/pieces.h"
#include "daemon/netlink/frames.h"
#include "host_view/rdma_netlink.h"

namespace weft::daemon {
namespace {

using node::NetlinkSockets;

constexpr fuzz::PieceFormat kFormat{.head_octets = 2};
constexpr std::size_t kSockets = 4;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

[[nodiscard]] const host_view::HostView& some_host() {
  static const host_view::HostView view = [] {
    host_view::ProgramView program{.pid = 1, .context = 1};
    program.qps.resize(3);
    host_view::DeviceView device{.index = 0, .name = "weft0", .protocol = "ib"};
    device.ports.push_back({.number = 1});
    device.programs.push_back(program);
    host_view::HostView host;
    host.devices.push_back(device);
    return host;
  }();
  return view;
}

class Desk {
 public:
  /// The lower bits choose the socket; the highest, that its program reads first.
  void handle(std::uint8_t who, ByteSpan bytes) {
    const std::size_t place = who % kSockets;
    if ((who & 0x80) != 0) {
      read(place);
    }
    const auto frame = uabi::parse_netlink_frame(bytes);
    if (!frame ||
        ids_.at(place).has_value() == (frame->head.kind == uabi::NetlinkFrameKind::Open)) {
      return leave(place);
    }
    if (frame->head.kind == uabi::NetlinkFrameKind::Open) {
      ids_.at(place) = sockets_.open(fabric::NodeIndex{static_cast<std::uint32_t>(place % 2)},
                                     static_cast<std::uint32_t>(100 + place), frame->head.port);
    } else if (is_a_send(*frame)) {
      send(*ids_.at(place), *frame);
    } else if (frame->head.kind == uabi::NetlinkFrameKind::SendMany) {
      const SentMany sent = send_many(sockets_, *ids_.at(place), *frame);
      require(sent.error <= 0 && sent.taken <= frame->payload.size());
      require(sent.error != 0 || sent.taken != 0);
    } else {
      const int error = change_socket(sockets_, *ids_.at(place), *frame);
      require(answer_of(sockets_, *ids_.at(place), error).error == -error);
    }
    sockets_.check_invariants();
  }

  void leave(std::size_t place) {
    if (auto& id = ids_.at(place)) {
      sockets_.close(*id);
      id.reset();
      sockets_.check_invariants();
    }
  }

 private:
  void send(NetlinkSockets::Id id, const uabi::NetlinkFrame& frame) {
    const auto sent = sockets_.send(id, destination_of(sockets_, id, frame), frame.payload);
    require(sockets_.describe(id).port != 0);
    if (sent.is_for_kernel) {
      const host_view::Asker asker{
          .wants_capped_errors = sockets_.has_option(id, node::NetlinkOption::CapAcknowledgements)};
      static_cast<void>(
          sockets_.answer(id, host_view::answer(frame.payload, some_host(), asker, nullptr)));
    }
  }

  void read(std::size_t place) {
    const auto id = ids_.at(place);
    while (id && sockets_.front(*id) != nullptr) {
      const node::NetlinkDatagram& datagram = *sockets_.front(*id);
      ByteSpan rest = datagram.bytes;
      while (datagram.port == 0 && !rest.empty()) {
        require(wire::netlink::take_message(rest).has_value());
      }
      require(head_of(datagram, true).kind == (datagram.is_overrun
                                                   ? uabi::NetlinkFrameKind::Overrun
                                                   : uabi::NetlinkFrameKind::Datagram));
      sockets_.pop(*id);
    }
  }

  NetlinkSockets sockets_;
  std::array<std::optional<NetlinkSockets::Id>, kSockets> ids_;
};

[[nodiscard]] fuzz::Piece make_piece(Random& random) {
  fuzz::Piece piece{.head = {static_cast<std::uint8_t>(random.below(256))}, .message = {}};
  const auto put = [&](std::uint32_t number) {
    for (unsigned i = 0; i < 4; ++i) {
      piece.message.push_back(static_cast<std::uint8_t>(number >> 8 * i));
    }
  };
  const auto kind = static_cast<std::uint32_t>(random.below(14));
  put(kind);
  put(static_cast<std::uint32_t>(random.below(8)));
  put(random.chance(1, 2) ? 0 : static_cast<std::uint32_t>(98 + random.below(6)));
  put(0);
  if (kind == 5 || kind == 6) {  // Send, SendTo: a message of NLDEV
    put(16);
    put(static_cast<std::uint32_t>(5 << 10 | random.below(26)) |
        (random.chance(1, 2) ? 0x305U << 16 : 0x5U << 16));
    put(1);
    put(0);
  } else if (kind == 12) {  // SendMany
    for (std::uint64_t datagrams = random.below(4); datagrams > 0; --datagrams) {
      put(4);
      put(7);
    }
  }
  return piece;
}

}  // namespace
}  // namespace weft::daemon

/// The input consists of pieces: an octet for the socket, one for the length, and a frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::daemon::Desk desk;
  for (const weft::fuzz::Piece& piece : weft::fuzz::split({data, size}, weft::daemon::kFormat)) {
    desk.handle(piece.head.front(), std::as_bytes(std::span{piece.message}));
  }
  for (std::size_t place = 0; place < weft::daemon::kSockets; ++place) {
    desk.leave(place);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::daemon::kFormat,
                                   weft::daemon::make_piece);
}
