// Messages, credits and buffers of a connected stream. Called with the stream's lock held.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/rsockets/stream.h"

namespace weft::rsockets {
namespace {

/// A work request's id: the message, and what its completion frees.
constexpr std::uint64_t kIsReceive = std::uint64_t{1} << 63;
constexpr std::uint64_t kIsHeld = std::uint64_t{1} << 62;  // its octets lie in the send memory

constexpr int kCompletionsAtOnce = 16;  // policy

/// As rdma-core's: who wants to send waits for so much room, and no write is longer.
constexpr std::uint32_t kLeastRoom = 2'048;
constexpr std::uint32_t kMostOctets = 65'536;

[[nodiscard]] bool is_reached(std::uint16_t number, std::uint16_t mark) {
  return static_cast<std::int16_t>(number - mark) >= 0;
}

}  // namespace

void Stream::fail_with(int error) {
  if (is_connected()) {
    state_ = State::Failed;
    error_ = error;
    may_read_ = may_write_ = false;
  }
}

int Stream::post_receive() {
  ibv_recv_wr wr{};
  wr.wr_id = kIsReceive;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(cm_->qp, &wr, &bad);
}

void Stream::take_completions() {
  if (cm_->recv_cq == nullptr) {
    return;
  }
  ibv_wc completions[kCompletionsAtOnce];
  int count = 0;
  while ((count = ibv_poll_cq(cm_->recv_cq, kCompletionsAtOnce, completions)) > 0) {
    for (const ibv_wc& each : std::span{completions}.first(static_cast<std::size_t>(count))) {
      const bool is_receive = (each.wr_id & kIsReceive) != 0;
      if (!is_receive) {
        take_sent(each.wr_id);
      }
      if (each.status != IBV_WC_SUCCESS) {
        fail_with(each.status == IBV_WC_WR_FLUSH_ERR ? ECONNRESET : EIO);
      } else if (is_receive) {
        take_message(be32toh(each.imm_data));
        if (is_connected() && post_receive() != 0) {
          fail_with(EIO);
        }
      }
    }
  }
  if (count < 0) {
    fail_with(EIO);
  }
}

void Stream::take_sent(std::uint64_t wr_id) {
  const auto sent = static_cast<std::uint32_t>(wr_id);
  if (type_of(sent) == MessageType::Credits || type_of(sent) == MessageType::Control) {
    ++controls_free_;
    return;
  }
  ++sends_free_;
  if ((wr_id & kIsHeld) != 0) {
    send_bytes_free_ += value_of(sent);
  }
}

void Stream::take_message(std::uint32_t message) {
  switch (type_of(message)) {
    case MessageType::Data:
      return take_data_message(value_of(message));
    case MessageType::Credits:
      may_send_until_ = static_cast<std::uint16_t>(value_of(message));
      return;
    case MessageType::Control:
      return take_control(static_cast<Control>(value_of(message)));
    case MessageType::Write:
    case MessageType::IoMap:
      return;  // the entry is in the map
  }
}

/// What the other end says that it wrote lies in what was published, or it lies.
void Stream::take_data_message(std::uint32_t bytes) {
  if (bytes > published_bytes_ || arrived_.size() > options_.receive_depth) {
    fail_with(EIO);
    return;
  }
  if (bytes == 0) {
    ++read_;  // nothing to read, which would look like the end
    return;
  }
  published_bytes_ -= bytes;
  arrived_.push_back(bytes);
}

void Stream::take_control(Control control) {
  if (control == Control::KeepAlive || !is_connected()) {
    return;
  }
  may_read_ = false;
  if (control == Control::Disconnect || !may_write_) {
    may_write_ = false;
    state_ = State::Disconnected;
  }
}

/// Every message is a write with its word as immediate data; data with octets beside.
int Stream::post(ibv_send_wr& wr, const void* data, std::uint32_t bytes, bool is_held) {
  ibv_sge place{};
  std::memcpy(&place.addr, &data, sizeof data);
  place.length = bytes;
  place.lkey = is_held ? send_memory_.lkey() : 0;
  wr.wr_id |= is_held ? kIsHeld : 0;
  wr.sg_list = &place;
  wr.num_sge = bytes == 0 ? 0 : 1;
  wr.send_flags = is_held || bytes == 0 ? 0U : unsigned{IBV_SEND_INLINE};
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(cm_->qp, &wr, &bad);
  if (error != 0) {
    fail_with(error);
    errno = error;
    return -1;
  }
  return 0;
}

namespace {

[[nodiscard]] ibv_send_wr write_with(std::uint32_t message, std::uint64_t address,
                                     std::uint32_t key) {
  ibv_send_wr wr{};
  wr.wr_id = message;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htobe32(message);
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = key;
  return wr;
}

}  // namespace

int Stream::post_message(std::uint32_t message) {
  --controls_free_;
  ibv_send_wr wr = write_with(message, 0, 0);
  return post(wr, nullptr, 0, false);
}

/// Copies octets to where the device may read them until they are sent.
const std::byte* Stream::hold(const std::byte* data, std::uint32_t bytes) {
  std::byte* const place = send_memory_.data() + send_at_;
  std::memcpy(place, data, bytes);
  send_at_ = send_at_ + bytes == options_.send_bytes ? 0 : send_at_ + bytes;
  send_bytes_free_ -= bytes;
  return place;
}

/// The buffer that data goes to next: each is used up before the next one is taken.
bool Stream::has_target() {
  if (target_.length != 0) {
    return true;
  }
  std::byte* const slot = targets_.data() + next_target_ * sizeof(Target);
  std::memcpy(&target_, slot, sizeof target_);
  if (target_.length == 0) {
    return false;
  }
  std::memset(slot, 0, sizeof target_);
  next_target_ = (next_target_ + 1) % kTargets;
  return true;
}

bool Stream::has_room() const { return sends_free_ > 0 && send_bytes_free_ >= kLeastRoom; }

bool Stream::may_send() {
  return may_write_ && has_room() && sent_ != may_send_until_ && has_target();
}

bool Stream::all_sent() const { return sends_free_ + controls_free_ == options_.send_depth; }

/// How much of what is left goes by one write: short ones first, so that the other end can copy
/// while more is written; and no further than to the end of the ring.
std::uint32_t Stream::next_piece(std::size_t left, std::uint32_t& wish) const {
  const std::uint32_t contiguous = options_.send_bytes - send_at_;
  std::uint32_t bytes = std::min(contiguous, send_bytes_free_);
  if (left > wish) {
    bytes = std::min(bytes, wish);
    wish = std::min(wish * 2, kMostOctets);
  }
  return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, left));
}

int Stream::post_data(const std::byte* data, std::uint32_t bytes) {
  const bool is_held = bytes > inline_bytes_;
  const std::byte* const from = is_held ? hold(data, bytes) : data;
  ibv_send_wr wr = write_with(message(MessageType::Data, bytes), target_.address, target_.key);
  target_.address += bytes;
  target_.length -= bytes;
  ++sent_;
  --sends_free_;
  return post(wr, from, bytes, is_held);
}

/// Into a buffer of the I/O map: nobody is told.
int Stream::post_at(const IoMapEntry& entry, const std::byte* data, std::uint32_t bytes,
                    std::uint64_t offset) {
  const bool is_held = bytes > inline_bytes_;
  const std::byte* const from = is_held ? hold(data, bytes) : data;
  ibv_send_wr wr = write_with(message(MessageType::Write, bytes),
                              entry.address + (offset - entry.offset), entry.key);
  wr.opcode = IBV_WR_RDMA_WRITE;
  --sends_free_;
  return post(wr, from, bytes, is_held);
}

/// One of ours, for the other end's map: it counts as a data message there.
int Stream::post_map_entry(const IoMapEntry& entry, std::uint32_t index, std::uint64_t map) {
  ibv_send_wr wr = write_with(message(MessageType::IoMap, index), map + index * sizeof(IoMapEntry),
                              their_targets_key_);
  ++sent_;
  --sends_free_;
  return post(wr, &entry, sizeof entry, false);
}

/// The other end writes the map: what is read once is checked by its rights to our memory alone.
std::optional<IoMapEntry> Stream::find_map_entry(std::uint64_t offset) const {
  const std::byte* const map = targets_.data() + kTargets * sizeof(Target);
  for (std::uint32_t i = 0; i < options_.io_map_entries; ++i) {
    IoMapEntry entry{};
    std::memcpy(&entry, map + i * sizeof entry, sizeof entry);
    if (offset >= entry.offset && offset - entry.offset < entry.length) {
      return entry;
    }
  }
  return std::nullopt;
}

/// Publishes a half that is free, and says how many messages more may come.
void Stream::grant() {
  const std::uint32_t half = options_.receive_bytes / 2;
  const bool has_half = receive_bytes_free_ >= half;
  if (!is_connected() || controls_free_ == 0 || (!has_half && !is_reached(read_, grant_at_))) {
    return;
  }
  grant_at_ = static_cast<std::uint16_t>(read_ + options_.receive_depth / 2);
  const auto until = static_cast<std::uint16_t>(read_ + options_.receive_depth);
  const std::uint32_t word = message(MessageType::Credits, until);
  if (!has_half) {
    static_cast<void>(post_message(word));
    return;
  }
  const Target published{.address = receive_memory_.address() + next_half_ * half,
                         .key = receive_memory_.rkey(),
                         .length = half};
  ibv_send_wr wr =
      write_with(word, their_targets_ + their_next_target_ * sizeof(Target), their_targets_key_);
  --controls_free_;
  static_cast<void>(post(wr, &published, sizeof published, false));
  receive_bytes_free_ -= half;
  published_bytes_ += half;
  next_half_ = 1 - next_half_;
  their_next_target_ = (their_next_target_ + 1) % their_targets_count_;
}

}  // namespace weft::rsockets
