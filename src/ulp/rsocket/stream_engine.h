#pragma once

// One end of a stream of rsockets, as rdma-core's librdmacm has it (its docs/rsocket): credits,
// published buffers, messages, shutdown and the I/O map. Pure: immediate data of writes that came,
// and ids of writes that were sent, go in; writes to be posted come out, in order, and the caller
// posts each before its next call. One thread at a time.
//
// The receiver's buffer has two halves. It publishes a half whenever it is free, and the sender
// fills what is published in order; so what arrives lies one behind the other in a ring. Messages
// are counted: each half of the receive queue that the program has read is granted anew.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "ulp/rsocket/io_map.h"
#include "ulp/rsocket/stream_protocol.h"

namespace weft::rsockets {

/// A write's first piece; rdma-core's. Pieces double from there.
inline constexpr std::uint32_t kFirstPiece = 2'048;

/// What one end of a stream has room for.
struct StreamSizes {
  std::uint32_t send_depth{};  ///< work requests, of both queues
  std::uint32_t receive_depth{};
  std::uint32_t inline_bytes{};  ///< longer writes lie in the send memory
  std::uint32_t send_bytes{};
  std::uint32_t receive_bytes{};
  std::uint32_t io_map_entries{};  ///< that the other end may fill
};

/// The nearest that a stream can have on a device whose queues hold `max_work_requests`.
[[nodiscard]] StreamSizes fitted(StreamSizes wish, std::uint32_t max_work_requests);

/// Memory of this end, as its device knows it.
struct StreamMemory {
  MutableByteSpan octets;
  std::uint64_t address{};
  std::uint32_t key{};  ///< the R_Key
};

/// How many octets the array of targets has, with the I/O map behind it.
[[nodiscard]] std::size_t targets_bytes(const StreamSizes& sizes);

/// An RDMA WRITE for the stream's QP.
struct StreamWrite {
  std::uint64_t id{};                      ///< for take_sent(), once it is complete
  std::optional<std::uint32_t> message{};  ///< its immediate data; none: nobody is told
  std::uint64_t address{};                 ///< of the other end
  std::uint32_t key{};
  ByteSpan octets{};  ///< until the engine's next call
  bool is_held{};     ///< they lie in the send memory until the write is complete; else inline
};

class StreamEngine {
 public:
  enum class Phase : std::uint8_t { Opening, Connected, Disconnected, Failed };

  // --- opening
  /// The memories have the sizes said; those that the other end writes to, `receive` and `targets`,
  /// are zero.
  void open(const StreamSizes& sizes, StreamMemory send, StreamMemory receive,
            StreamMemory targets);
  /// For the private data of the connection request, or of its answer.
  [[nodiscard]] ConnectionData own_data() const;
  /// What the other end says of itself. NotSupported: no rsocket, or none that this one can speak
  /// to.
  [[nodiscard]] Result<void> take_data(ByteSpan private_data);
  void connect();

  // --- how it stands
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool is_connected() const { return phase_ == Phase::Connected; }
  /// More may come, or go.
  [[nodiscard]] bool may_read() const { return may_read_; }
  [[nodiscard]] bool may_write() const { return may_write_; }

  // --- what comes
  /// The immediate data of a write. False: the other end says what cannot be, and the caller has to
  /// set_failed().
  [[nodiscard]] bool take_message(std::uint32_t message);
  /// A write was sent, or flushed.
  void take_sent(std::uint64_t id);
  /// The connection ended, without or with an error.
  void take_disconnect();
  void set_failed();

  // --- reading
  [[nodiscard]] bool has_arrived() const { return !arrived_.empty(); }
  /// As much as there is; to peek takes nothing away.
  [[nodiscard]] std::size_t read(MutableByteSpan out, bool peeks);
  /// Publishes a half that is free, and says how many messages more may come; if it is time.
  [[nodiscard]] std::optional<StreamWrite> grant();

  // --- writing
  /// There is a slot of the send queue and room in the send memory.
  [[nodiscard]] bool has_room() const;
  /// That, a credit, and a buffer of the other end.
  [[nodiscard]] bool may_send();
  /// Everything that was posted is complete.
  [[nodiscard]] bool all_sent() const;
  /// The first piece of what is left: short ones first, so that the other end can copy while more
  /// is written. `wish` is kFirstPiece for the first one. The stream may send.
  [[nodiscard]] StreamWrite write(ByteSpan left, std::uint32_t& wish);

  // --- ending
  /// There is room for a message of our own.
  [[nodiscard]] bool may_say() const { return controls_free_ > 0; }
  /// This end writes no more, and perhaps reads no more: what the other end has to hear.
  [[nodiscard]] Control stop(bool stops_reading);
  /// This end reads no more, which the other end need not know.
  void stop_reading() { may_read_ = false; }
  [[nodiscard]] StreamWrite say(Control control);
  /// Nothing more is to come either way.
  void end();

  // --- the I/O map
  [[nodiscard]] IoMap& map() { return map_; }
  /// Tells the other end of a mapping that it does not know yet; the stream may send.
  [[nodiscard]] StreamWrite tell_mapping();
  /// The buffer of the other end that an offset lies in.
  [[nodiscard]] std::optional<IoMapEntry> find_entry(std::uint64_t offset) const;
  /// Into it, as write(): nobody is told. There is room.
  [[nodiscard]] StreamWrite write_at(const IoMapEntry& entry, std::uint64_t offset, ByteSpan left,
                                     std::uint32_t& wish);

 private:
  [[nodiscard]] bool take_data_message(std::uint32_t bytes);
  void take_control(Control control);
  [[nodiscard]] bool has_target();
  [[nodiscard]] static bool is_written(std::span<std::byte, kTargetBytes> slot);
  [[nodiscard]] std::uint32_t next_piece(std::size_t left, std::uint32_t& wish) const;
  void place(StreamWrite& write, ByteSpan octets);

  StreamSizes sizes_;
  StreamMemory send_;
  StreamMemory receive_;
  StreamMemory targets_;  // of the other end's buffers, then its I/O map
  Phase phase_{Phase::Opening};
  bool may_read_{};
  bool may_write_{};

  // Sending
  std::uint32_t send_at_{};  // of the ring, where the next octets go
  std::uint32_t send_bytes_free_{};
  std::uint32_t sends_free_{};  // of the send queue, but for messages of our own
  std::uint32_t controls_free_{};
  std::uint16_t sent_{};  // data messages, modulo 2^16
  std::uint16_t may_send_until_{};
  Target target_;  // what is left of the buffer in use
  std::uint32_t next_target_{};
  std::array<std::byte, kIoMapEntryBytes> told_{};  // octets of a write that are not the program's

  // Receiving
  std::deque<std::uint32_t> arrived_;  // messages, by their octets
  std::uint32_t read_at_{};
  std::uint32_t receive_bytes_free_{};  // neither published nor unread
  std::uint32_t published_bytes_{};     // and not arrived
  std::uint32_t next_half_{1};
  std::uint16_t read_{};  // data messages, modulo 2^16
  std::uint16_t grant_at_{};
  std::uint64_t their_targets_{};  // address of the other end's array
  std::uint32_t their_targets_key_{};
  std::uint32_t their_targets_count_{};
  std::uint32_t their_next_target_{};

  IoMap map_;
};

}  // namespace weft::rsockets
