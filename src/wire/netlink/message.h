#pragma once

// Netlink messages (RFC 3549 §2; linux/netlink.h): a header and attributes of type, length and
// value, all in the byte order of the machine and padded to 4 octets. A datagram holds one message
// or several. Reading checks every length against what is there and never looks beyond it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace weft::wire::netlink {

inline constexpr std::size_t kAlignment = 4;
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kAttributeHeaderBytes = 4;

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Message types below 16 belong to netlink itself.
inline constexpr std::uint16_t kTypeNoop = 1;
inline constexpr std::uint16_t kTypeError = 2;  ///< also the acknowledgement, with error 0
inline constexpr std::uint16_t kTypeDone = 3;   ///< the end of a dump
inline constexpr std::uint16_t kTypeMin = 16;

/// Flags of a message.
inline constexpr std::uint16_t kFlagRequest = 0x001;
inline constexpr std::uint16_t kFlagMulti = 0x002;  ///< one of several, ended by kTypeDone
inline constexpr std::uint16_t kFlagAck = 0x004;    ///< an acknowledgement is asked for
inline constexpr std::uint16_t kFlagDump = 0x300;   ///< NLM_F_ROOT and NLM_F_MATCH
inline constexpr std::uint16_t kFlagCapped =
    0x100;  ///< of an error: the request's payload is left out

/// Attribute types carry two flags above their 14 bits.
inline constexpr std::uint16_t kAttributeNested = 0x8000;
inline constexpr std::uint16_t kAttributeTypeMask = 0x3FFF;

/// struct nlmsghdr.
struct Header {
  std::uint32_t length{};  ///< octets, this header included
  std::uint16_t type{};
  std::uint16_t flags{};
  std::uint32_t sequence{};
  std::uint32_t port{};  ///< the socket's address: 0 is the kernel's

  [[nodiscard]] bool is_request() const { return (flags & kFlagRequest) != 0; }
  [[nodiscard]] bool wants_ack() const { return (flags & kFlagAck) != 0; }
  [[nodiscard]] bool wants_dump() const { return (flags & kFlagDump) == kFlagDump; }
  bool operator==(const Header&) const = default;
};

/// One message of a datagram; views of the datagram's memory.
struct Message {
  Header header{};
  ByteSpan whole;    ///< with the header
  ByteSpan payload;  ///< behind it
};

/// Takes the next message off `rest`. None when what is left is not a whole message: the rest of
/// such a datagram is dropped, as Linux does.
[[nodiscard]] std::optional<Message> take_message(ByteSpan& rest);

/// One attribute; a view of the message's memory.
struct Attribute {
  std::uint16_t type{};  ///< without flags
  bool is_nested{};
  ByteSpan value;

  /// The value as a number, if it has exactly that many octets.
  template <class T>
    requires std::is_unsigned_v<T>
  [[nodiscard]] std::optional<T> number() const {
    T number{};
    if (value.size() != sizeof number) {
      return std::nullopt;
    }
    copy_bytes(std::as_writable_bytes(std::span{&number, 1}), value);
    return number;
  }
  /// Up to the first NUL; none if it has no NUL.
  [[nodiscard]] std::optional<std::string_view> text() const;
};

/// The attributes of a payload, up to the first whose length does not fit what is there: what
/// follows is ignored, as Linux does for families without strict checks.
[[nodiscard]] std::vector<Attribute> parse_attributes(ByteSpan payload);

/// The last attribute of a type, as Linux counts; null without one.
[[nodiscard]] const Attribute* find(const std::vector<Attribute>& attributes, std::uint16_t type);

/// Appends messages to a datagram.
class MessageWriter {
 public:
  /// Begins a message; the length follows with end().
  explicit MessageWriter(std::vector<std::byte>& datagram) : out_(datagram) {}

  void begin(const Header& header);
  /// Fixed octets before the attributes.
  void put_raw(ByteSpan bytes);
  void put(std::uint16_t type, ByteSpan value);
  /// With the NUL that ends it.
  void put_text(std::uint16_t type, std::string_view text);
  template <class T>
    requires std::is_unsigned_v<T>
  void put_number(std::uint16_t type, T number) {
    put(type, bytes_of(number));
  }
  /// Attributes put until end_nested() with what this returns lie inside of this one. Without
  /// NLA_F_NESTED, as RDMA netlink writes them.
  [[nodiscard]] std::size_t begin_nested(std::uint16_t type);
  void end_nested(std::size_t nested);
  void end();

  /// Octets of the message so far.
  [[nodiscard]] std::size_t size() const { return out_.size() - begin_; }

 private:
  void pad();
  std::vector<std::byte>& out_;
  std::size_t begin_{};
};

/// Appends an NLMSG_ERROR for `request`: `error` is 0 for an acknowledgement, else a negative
/// errno, and then the request follows whole, unless `is_capped`: its header.
void put_error(std::vector<std::byte>& datagram, const Message& request, int error,
               bool is_capped = false);

/// Appends the NLMSG_DONE that ends the dump asked for by `request`.
void put_done(std::vector<std::byte>& datagram, const Header& request,
              std::uint16_t type = kTypeDone);

}  // namespace weft::wire::netlink
