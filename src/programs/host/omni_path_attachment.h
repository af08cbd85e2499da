#pragma once

// A program's place at an Omni-Path port of its host: 16B packets and MADs in batches, groups,
// capabilities, and what the port and others' ports are. The fabric's daemon ends all of it with
// the program. Not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "os/packet_socket.h"
#include "uabi/messages.h"

namespace weft::programs {

/// Of what comes to the port, what the program is given.
struct OmniPathWishes {
  bool takes_ethernet{};
  bool takes_answers{};
  bool watches_ports{};
  std::array<std::uint64_t, 2> requests{};  // MADs' methods, as bits
};

/// A port of any host.
struct ListedOmniPathPort {
  std::string host;
  Lid lid;
  bool is_active{};
  bool carries_ethernet{};
  std::uint32_t serial{};  // another: it says so anew, and another program may
};

/// What came by the connection since it was looked last.
struct OmniPathNews {
  bool has_port_changed{};
  bool have_ports_changed{};  // others'; once until they are asked for
  /// Groups that this port is in now, or is not to be: with false.
  std::vector<std::pair<Lid, bool>> joined{};
  std::optional<std::vector<ListedOmniPathPort>> listed{};
};

class OmniPathAttachment {
 public:
  /// Policy: packets that wait for room, from which on no more is to be read from interfaces, and
  /// above which they are lost.
  static constexpr std::size_t kEnoughKept = 128;
  static constexpr std::size_t kMostKept = 4096;

  /// To the host's first Omni-Path port. NotFound: it has none. NoSuchDevice: the program is on no
  /// host of a fabric. Refused: with the daemon's reason.
  [[nodiscard]] static Result<std::unique_ptr<OmniPathAttachment>> attach(
      const OmniPathWishes& wishes);
  /// Over sockets that are attached already.
  OmniPathAttachment(os::PacketSocket control, os::PacketSocket packets,
                     uabi::OmniPathPortState state)
      : control_(std::move(control)),
        packets_(std::move(packets)),
        state_(std::move(state)),
        room_(uabi::kMaxMessageBytes) {}

  /// Readable when there are news; and when packets have come.
  [[nodiscard]] int news_fd() const { return control_.fd(); }
  [[nodiscard]] int packets_fd() const { return packets_.fd(); }

  [[nodiscard]] Lid lid() const { return state_.lid; }
  [[nodiscard]] bool is_active() const { return state_.is_active; }
  [[nodiscard]] const std::vector<PKey>& pkeys() const { return state_.pkeys; }
  /// Packets for this program that had no room.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  /// NoSuchDevice: the fabric or the host is gone.
  [[nodiscard]] Result<OmniPathNews> take_news();
  /// At most a few batches; true: there may be more.
  [[nodiscard]] Result<bool> receive(const std::function<void(ByteSpan packet)>& take);

  void ask_for_ports();
  void join(Lid mlid);
  void leave(Lid mlid);
  void set_carries_ethernet(bool carries);

  /// Kept until flush(), and beyond if there is no room. False: it is lost, since too many are.
  [[nodiscard]] bool send(std::vector<std::byte> packet);
  [[nodiscard]] bool has_room() const { return kept_ < kEnoughKept; }
  /// Sends what there is room for. NoSuchDevice: as above.
  [[nodiscard]] Result<void> flush();
  /// Something is kept: by the packets' socket, which becomes writable; by the other, which does
  /// not say when.
  [[nodiscard]] bool keeps_packets() const { return kept_ != 0; }
  [[nodiscard]] bool keeps_words() const { return !untold_.empty(); }

 private:
  void tell(const uabi::Message& message);
  [[nodiscard]] Result<std::optional<uabi::Message>> next_of(const os::PacketSocket& socket);
  [[nodiscard]] Result<void> take(uabi::Message message, OmniPathNews& news);
  [[nodiscard]] Result<void> send_batches();

  os::PacketSocket control_;
  os::PacketSocket packets_;
  uabi::OmniPathPortState state_;
  std::vector<std::byte> room_;
  std::vector<ListedOmniPathPort> listing_;  // parts of an answer that is not whole yet
  std::uint64_t lost_{};
  std::deque<uabi::OmniPathPackets> batches_;  // the last may grow
  std::size_t last_bytes_{};                   // of the last
  std::size_t kept_{};
  std::deque<std::vector<std::byte>> untold_;
};

}  // namespace weft::programs
