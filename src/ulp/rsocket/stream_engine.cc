#include "ulp/rsocket/stream_engine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>

#include "ulp/rsocket/native_order.h"

namespace weft::rsockets {
namespace {

constexpr std::uint32_t kLeastDepth = 16;
constexpr std::uint32_t kMaxDepth = 0xFFFE;
constexpr std::uint32_t kControls = 4;         // of our own messages under way at once
constexpr std::uint32_t kLeastBytes = 4'096;   // two halves, each of a page's half
constexpr std::uint32_t kMaxBytes = 1U << 28;  // policy: a message says 29 bits

/// A write's id: its message, and whether its octets lie in the send memory.
constexpr std::uint64_t kIsHeld = std::uint64_t{1} << 62;

/// As rdma-core's: who wants to send waits for so much room, and no write is longer.
constexpr std::uint32_t kLeastRoom = 2'048;
constexpr std::uint32_t kMaxOctets = 65'536;

constexpr bool kIsBigEndianHere = std::endian::native == std::endian::big;

[[nodiscard]] bool is_reached(std::uint16_t number, std::uint16_t mark) {
  return static_cast<std::int16_t>(number - mark) >= 0;
}

[[nodiscard]] StreamWrite write_with(std::uint32_t message, std::uint64_t address,
                                     std::uint32_t key) {
  return {.id = message, .message = message, .address = address, .key = key};
}

}  // namespace

StreamSizes fitted(StreamSizes wish, std::uint32_t max_work_requests) {
  const std::uint32_t most = std::max(std::min(max_work_requests, kMaxDepth), kLeastDepth);
  wish.send_depth = std::clamp(wish.send_depth, kLeastDepth, most);
  wish.receive_depth = std::clamp(wish.receive_depth, kLeastDepth, most);
  wish.inline_bytes = std::max(wish.inline_bytes, static_cast<std::uint32_t>(kIoMapEntryBytes));
  wish.send_bytes = std::clamp(wish.send_bytes, kLeastBytes, kMaxBytes);
  wish.receive_bytes = std::clamp(wish.receive_bytes, kLeastBytes, kMaxBytes) & ~1U;
  return wish;
}

std::size_t targets_bytes(const StreamSizes& sizes) {
  return kTargets * kTargetBytes + sizes.io_map_entries * kIoMapEntryBytes;
}

// --- opening

void StreamEngine::open(const StreamSizes& sizes, StreamMemory send, StreamMemory receive,
                        StreamMemory targets) {
  sizes_ = sizes;
  send_ = send;
  receive_ = receive;
  targets_ = targets;
  send_bytes_free_ = sizes.send_bytes;
  sends_free_ = sizes.send_depth - kControls;
  controls_free_ = kControls;
  receive_bytes_free_ = published_bytes_ = sizes.receive_bytes / 2;
  grant_at_ = static_cast<std::uint16_t>(sizes.receive_depth / 2);
}

ConnectionData StreamEngine::own_data() const {
  const std::uint8_t order = kIsBigEndianHere ? kIsBigEndian : 0;
  return {
      .version = kVersion,
      .flags = static_cast<std::uint8_t>(kHasIoMap | order),
      .credits = static_cast<std::uint16_t>(sizes_.receive_depth),
      .io_map_scale = scale_of_size(sizes_.io_map_entries),
      .targets = {.address = targets_.address, .key = targets_.key, .length = kTargets                },
      .buffer = {
                  .address = receive_.address, .key = receive_.key, .length = sizes_.receive_bytes / 2}
  };
}

Result<void> StreamEngine::take_data(ByteSpan private_data) {
  constexpr std::size_t kBytes = wire::kSizeOf<ConnectionData>;
  if (private_data.size() < kBytes) {
    return fail(ErrorCode::NotSupported, "the other end is no rsocket: it has no private data");
  }
  const auto data = wire::unpack<ConnectionData>(private_data.first<kBytes>());
  if (data.version != kVersion) {
    return fail(ErrorCode::NotSupported, "the other end speaks another version of rsockets");
  }
  if (((data.flags & kIsBigEndian) != 0) != kIsBigEndianHere) {
    return fail(ErrorCode::NotSupported, "the other end is a machine of another byte order");
  }
  if (data.targets.length == 0) {
    return fail(ErrorCode::InvalidArgument, "the other end has no place for published buffers");
  }
  their_targets_ = data.targets.address;
  their_targets_key_ = data.targets.key;
  their_targets_count_ = data.targets.length;
  their_next_target_ = 1 % their_targets_count_;
  map_.set_entries((data.flags & kHasIoMap) != 0 ? size_of_scale(data.io_map_scale) : 0);
  target_ = data.buffer;
  next_target_ = 1;
  may_send_until_ = data.credits;
  return {};
}

void StreamEngine::connect() {
  phase_ = Phase::Connected;
  may_read_ = may_write_ = true;
}

// --- what comes

bool StreamEngine::take_message(std::uint32_t message) {
  switch (type_of(message)) {
    case MessageType::Data:
      return take_data_message(value_of(message));
    case MessageType::Credits:
      may_send_until_ = static_cast<std::uint16_t>(value_of(message));
      return true;
    case MessageType::Control:
      take_control(static_cast<Control>(value_of(message)));
      return true;
    case MessageType::Write:
    case MessageType::IoMap:
      return true;  // the entry is in the map
  }
  return true;  // a type that rdma-core does not have
}

/// What the other end says that it wrote lies in what was published, or it lies.
bool StreamEngine::take_data_message(std::uint32_t bytes) {
  if (bytes > published_bytes_ || arrived_.size() > sizes_.receive_depth) {
    return false;
  }
  if (bytes == 0) {
    ++read_;  // nothing to read, which would look like the end
    return true;
  }
  published_bytes_ -= bytes;
  arrived_.push_back(bytes);
  return true;
}

void StreamEngine::take_control(Control control) {
  if (control == Control::KeepAlive || !is_connected()) {
    return;
  }
  may_read_ = false;
  if (control == Control::Disconnect || !may_write_) {
    may_write_ = false;
    phase_ = Phase::Disconnected;
  }
}

void StreamEngine::take_sent(std::uint64_t id) {
  const auto sent = static_cast<std::uint32_t>(id);
  if (type_of(sent) == MessageType::Credits || type_of(sent) == MessageType::Control) {
    ++controls_free_;
    return;
  }
  ++sends_free_;
  if ((id & kIsHeld) != 0) {
    send_bytes_free_ += value_of(sent);
  }
}

void StreamEngine::take_disconnect() {
  may_read_ = may_write_ = false;
  end();
}

void StreamEngine::set_failed() {
  if (is_connected()) {
    phase_ = Phase::Failed;
    may_read_ = may_write_ = false;
  }
}

// --- reading

std::size_t StreamEngine::read(MutableByteSpan out, bool peeks) {
  std::size_t done = 0;
  std::size_t message = 0;  // the next one to peek at
  std::uint32_t from = read_at_;
  std::uint32_t seen = 0;  // of it
  while (done < out.size() && message < arrived_.size()) {
    const auto piece = static_cast<std::uint32_t>(
        std::min({out.size() - done, std::size_t{arrived_[message] - seen},
                  std::size_t{sizes_.receive_bytes - from}}));
    copy_bytes(out.subspan(done), receive_.octets.subspan(from, piece));
    done += piece;
    from = (from + piece) % sizes_.receive_bytes;
    seen += piece;
    if (peeks) {
      if (seen == arrived_[message]) {
        ++message;
        seen = 0;
      }
      continue;
    }
    read_at_ = from;
    receive_bytes_free_ += piece;
    arrived_.front() -= piece;
    seen = 0;
    if (arrived_.front() == 0) {
      arrived_.pop_front();
      ++read_;
    }
  }
  return done;
}

std::optional<StreamWrite> StreamEngine::grant() {
  const std::uint32_t half = sizes_.receive_bytes / 2;
  const bool has_half = receive_bytes_free_ >= half;
  if (!is_connected() || controls_free_ == 0 || (!has_half && !is_reached(read_, grant_at_))) {
    return std::nullopt;
  }
  grant_at_ = static_cast<std::uint16_t>(read_ + sizes_.receive_depth / 2);
  const auto until = static_cast<std::uint16_t>(read_ + sizes_.receive_depth);
  const std::uint32_t word = message(MessageType::Credits, until);
  --controls_free_;
  if (!has_half) {
    return write_with(word, 0, 0);
  }
  const auto published = pack_native(
      Target{.address = receive_.address + next_half_ * half, .key = receive_.key, .length = half});
  std::ranges::copy(published, told_.begin());
  StreamWrite write =
      write_with(word, their_targets_ + their_next_target_ * kTargetBytes, their_targets_key_);
  write.octets = std::span{told_}.first(published.size());
  receive_bytes_free_ -= half;
  published_bytes_ += half;
  next_half_ = 1 - next_half_;
  their_next_target_ = (their_next_target_ + 1) % their_targets_count_;
  return write;
}

// --- writing

bool StreamEngine::has_room() const { return sends_free_ > 0 && send_bytes_free_ >= kLeastRoom; }

/// Whether there is a target in the slot, which the peer's WRITE may be filling now: of a WRITE the
/// last bytes come last and at once, here key and length.
bool StreamEngine::is_written(std::span<std::byte, kTargetBytes> slot) {
  void* const length = slot.last<sizeof(std::uint32_t)>().data();
  return std::atomic_ref<std::uint32_t>{*static_cast<std::uint32_t*>(length)}.load(
             std::memory_order_acquire) != 0;
}

/// The buffer that data goes to next: each is used up before the next one is taken.
bool StreamEngine::has_target() {
  if (target_.length != 0) {
    return true;
  }
  const auto slot = targets_.octets.subspan(next_target_ * kTargetBytes).first<kTargetBytes>();
  if (!is_written(slot)) {
    return false;
  }
  target_ = unpack_native<Target>(slot);
  std::ranges::fill(slot, std::byte{});
  next_target_ = (next_target_ + 1) % kTargets;
  return true;
}

bool StreamEngine::may_send() {
  return may_write_ && has_room() && sent_ != may_send_until_ && has_target();
}

bool StreamEngine::all_sent() const { return sends_free_ + controls_free_ == sizes_.send_depth; }

/// How much of what is left goes by one write; no further than to the end of the ring.
std::uint32_t StreamEngine::next_piece(std::size_t left, std::uint32_t& wish) const {
  const std::uint32_t contiguous = sizes_.send_bytes - send_at_;
  std::uint32_t bytes = std::min(contiguous, send_bytes_free_);
  if (left > wish) {
    bytes = std::min(bytes, wish);
    wish = std::min(wish * 2, kMaxOctets);
  }
  return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, left));
}

/// Inline, or copied to where the device may read them until they are sent.
void StreamEngine::place(StreamWrite& write, ByteSpan octets) {
  write.octets = octets;
  write.is_held = octets.size() > sizes_.inline_bytes;
  --sends_free_;
  if (!write.is_held) {
    return;
  }
  const auto bytes = static_cast<std::uint32_t>(octets.size());
  const auto held = send_.octets.subspan(send_at_, bytes);
  copy_bytes(held, octets);
  send_at_ = send_at_ + bytes == sizes_.send_bytes ? 0 : send_at_ + bytes;
  send_bytes_free_ -= bytes;
  write.octets = held;
  write.id |= kIsHeld;
}

StreamWrite StreamEngine::write(ByteSpan left, std::uint32_t& wish) {
  const std::uint32_t bytes = std::min(next_piece(left.size(), wish), target_.length);
  StreamWrite write = write_with(message(MessageType::Data, bytes), target_.address, target_.key);
  target_.address += bytes;
  target_.length -= bytes;
  ++sent_;
  place(write, left.first(bytes));
  return write;
}

// --- ending

Control StreamEngine::stop(bool stops_reading) {
  const Control control = !stops_reading && may_read_ ? Control::Shutdown : Control::Disconnect;
  may_read_ = may_read_ && !stops_reading;
  may_write_ = false;
  return control;
}

StreamWrite StreamEngine::say(Control control) {
  --controls_free_;
  return write_with(message(MessageType::Control, static_cast<std::uint32_t>(control)), 0, 0);
}

void StreamEngine::end() { phase_ = is_connected() ? Phase::Disconnected : phase_; }

// --- the I/O map

/// It counts as a data message.
StreamWrite StreamEngine::tell_mapping() {
  const IoMap::Mapping next = map_.tell_next();
  const std::uint32_t index = *next.index;
  told_ = pack_native(IoMapEntry{
      .offset = next.offset, .address = next.address, .key = next.key, .length = next.length});
  StreamWrite write =
      write_with(message(MessageType::IoMap, index),
                 their_targets_ + their_targets_count_ * kTargetBytes + index * kIoMapEntryBytes,
                 their_targets_key_);
  ++sent_;
  place(write, told_);
  return write;
}

/// The other end writes the map: what is read once is checked by its rights to our memory alone.
std::optional<IoMapEntry> StreamEngine::find_entry(std::uint64_t offset) const {
  const auto map = targets_.octets.subspan(kTargets * kTargetBytes);
  for (std::size_t i = 0; i < sizes_.io_map_entries; ++i) {
    const auto entry =
        unpack_native<IoMapEntry>(map.subspan(i * kIoMapEntryBytes).first<kIoMapEntryBytes>());
    if (offset >= entry.offset && offset - entry.offset < entry.length) {
      return entry;
    }
  }
  return std::nullopt;
}

StreamWrite StreamEngine::write_at(const IoMapEntry& entry, std::uint64_t offset, ByteSpan left,
                                   std::uint32_t& wish) {
  const std::uint64_t room = entry.offset + entry.length - offset;
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(next_piece(left.size(), wish), room));
  StreamWrite write = write_with(message(MessageType::Write, bytes),
                                 entry.address + (offset - entry.offset), entry.key);
  write.message.reset();
  place(write, left.first(bytes));
  return write;
}

}  // namespace weft::rsockets
