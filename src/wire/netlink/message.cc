#include "wire/netlink/message.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <span>

namespace weft::wire::netlink {
namespace {

template <class T>
[[nodiscard]] T load(ByteSpan bytes, std::size_t at) {
  T value{};
  copy_bytes(std::as_writable_bytes(std::span{&value, 1}), bytes.subspan(at, sizeof value));
  return value;
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const ByteSpan bytes = bytes_of(value);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void store(std::vector<std::byte>& out, std::size_t at, T value) {
  copy_bytes(std::span{out}.subspan(at, sizeof value), bytes_of(value));
}

void append_header(std::vector<std::byte>& out, const Header& header) {
  append(out, header.length);
  append(out, header.type);
  append(out, header.flags);
  append(out, header.sequence);
  append(out, header.port);
}

}  // namespace

std::optional<Message> take_message(ByteSpan& rest) {
  if (rest.size() < kHeaderBytes) {
    return std::nullopt;
  }
  Message message;
  message.header = {.length = load<std::uint32_t>(rest, 0),
                    .type = load<std::uint16_t>(rest, 4),
                    .flags = load<std::uint16_t>(rest, 6),
                    .sequence = load<std::uint32_t>(rest, 8),
                    .port = load<std::uint32_t>(rest, 12)};
  const std::size_t length = message.header.length;
  if (length < kHeaderBytes || length > rest.size()) {
    return std::nullopt;
  }
  message.whole = rest.first(length);
  message.payload = message.whole.subspan(kHeaderBytes);
  rest = rest.subspan(std::min(aligned(length), rest.size()));
  return message;
}

std::optional<std::string_view> Attribute::text() const {
  const auto end = std::ranges::find(value, std::byte{0});
  if (end == value.end()) {
    return std::nullopt;
  }
  std::string_view text;
  if (end != value.begin()) {
    // char may view any object's octets.
    text = {static_cast<const char*>(static_cast<const void*>(value.data())),
            static_cast<std::size_t>(end - value.begin())};
  }
  return text;
}

std::vector<Attribute> parse_attributes(ByteSpan payload) {
  std::vector<Attribute> attributes;
  while (payload.size() >= kAttributeHeaderBytes) {
    const std::size_t length = load<std::uint16_t>(payload, 0);
    const auto type = load<std::uint16_t>(payload, 2);
    if (length < kAttributeHeaderBytes || length > payload.size()) {
      break;
    }
    attributes.push_back(
        {.type = static_cast<std::uint16_t>(type & kAttributeTypeMask),
         .is_nested = (type & kAttributeNested) != 0,
         .value = payload.subspan(kAttributeHeaderBytes, length - kAttributeHeaderBytes)});
    payload = payload.subspan(std::min(aligned(length), payload.size()));
  }
  return attributes;
}

const Attribute* find(const std::vector<Attribute>& attributes, std::uint16_t type) {
  for (const Attribute& attribute : std::views::reverse(attributes)) {
    if (attribute.type == type) {
      return &attribute;
    }
  }
  return nullptr;
}

void MessageWriter::begin(const Header& header) {
  begin_ = out_.size();
  append_header(out_, header);
}

void MessageWriter::put_raw(ByteSpan bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  pad();
}

void MessageWriter::put(std::uint16_t type, ByteSpan value) {
  append(out_, static_cast<std::uint16_t>(kAttributeHeaderBytes + value.size()));
  append(out_, type);
  put_raw(value);
}

void MessageWriter::put_text(std::uint16_t type, std::string_view text) {
  append(out_, static_cast<std::uint16_t>(kAttributeHeaderBytes + text.size() + 1));
  append(out_, type);
  const ByteSpan bytes = std::as_bytes(std::span{text});
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  out_.push_back(std::byte{0});
  pad();
}

std::size_t MessageWriter::begin_nested(std::uint16_t type) {
  const std::size_t at = out_.size();
  append(out_, std::uint16_t{0});
  append(out_, type);
  return at;
}

void MessageWriter::end_nested(std::size_t nested) {
  store(out_, nested, static_cast<std::uint16_t>(out_.size() - nested));
}

void MessageWriter::end() { store(out_, begin_, static_cast<std::uint32_t>(out_.size() - begin_)); }

void MessageWriter::pad() {
  // From the message's beginning, which is aligned in its datagram.
  out_.resize(begin_ + aligned(out_.size() - begin_));
}

void put_error(std::vector<std::byte>& datagram, const Message& request, int error,
               bool is_capped) {
  is_capped = is_capped || error == 0;
  MessageWriter writer{datagram};
  writer.begin({.type = kTypeError,
                .flags = is_capped ? kFlagCapped : std::uint16_t{0},
                .sequence = request.header.sequence,
                .port = request.header.port});
  writer.put_raw(bytes_of(error));
  writer.put_raw(is_capped ? request.whole.first(kHeaderBytes) : request.whole);
  writer.end();
}

void put_done(std::vector<std::byte>& datagram, const Header& request, std::uint16_t type) {
  MessageWriter writer{datagram};
  writer.begin(
      {.type = type, .flags = kFlagMulti, .sequence = request.sequence, .port = request.port});
  writer.put_raw(bytes_of(0));
  writer.end();
}

}  // namespace weft::wire::netlink
