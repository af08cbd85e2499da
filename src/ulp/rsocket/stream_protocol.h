#pragma once

// What the two ends of a stream of rsockets say to each other, as rdma-core's do (librdmacm's
// docs/rsocket): data goes by RDMA WRITE into buffers that the receiver published, and every
// message is the immediate data of a write. Numbers in memory are in the writer's order
// (native_order.h), those of the connection data in network order. Values.

#include <cstddef>
#include <cstdint>

#include "wire/layout.h"

namespace weft::rsockets {

/// A buffer of the other end: where to write, and how much.
struct Target {
  std::uint64_t address{};
  std::uint32_t key{};
  std::uint32_t length{};
  bool operator==(const Target&) const = default;
  // clang-format off
  using Wire = wire::Layout<16,
      wire::Field<"Address", 64, &Target::address>,
      wire::Field<"Key",     32, &Target::key>,
      wire::Field<"Length",  32, &Target::length>>;
  // clang-format on
};

/// Bits of ConnectionData's flags.
inline constexpr std::uint8_t kIsBigEndian = 1;
inline constexpr std::uint8_t kHasIoMap = 2;
inline constexpr std::uint8_t kVersion = 1;

/// Private data of a connection request and of its answer.
struct ConnectionData {
  std::uint8_t version{kVersion};
  std::uint8_t flags{};
  std::uint16_t credits{};      // data messages that may be under way
  std::uint8_t io_map_scale{};  // entries of the I/O map behind the targets (size_of_scale())
  Target targets;               // where to publish buffers; its length counts entries
  Target buffer;                // the first one published
  bool operator==(const ConnectionData&) const = default;
  // clang-format off
  using Wire = wire::Layout<40,
      wire::Field<"Version",    8, &ConnectionData::version>,
      wire::Field<"Flags",      8, &ConnectionData::flags>,
      wire::Field<"Credits",   16, &ConnectionData::credits>,
      wire::Reserved<24>,
      wire::Field<"IoMapSize",  8, &ConnectionData::io_map_scale>,
      wire::Nested<&ConnectionData::targets>,
      wire::Nested<&ConnectionData::buffer>>;
  // clang-format on
};

/// An octet for a size of up to 32,512: whole up to 128, in steps of 256 above.
[[nodiscard]] constexpr std::uint8_t scale_of_size(unsigned size) {
  return static_cast<std::uint8_t>(size <= 0x80 ? size : 0x80 | size >> 8);
}
[[nodiscard]] constexpr unsigned size_of_scale(std::uint8_t scale) {
  return scale <= 0x80 ? scale : (scale & 0x7FU) << 8;
}

/// The upper three bits of a message.
enum class MessageType : std::uint8_t {
  Data = 0,     // so many octets were written into the published buffer
  Write = 2,    // never sent: marks writes into the I/O map's buffers
  Credits = 4,  // messages up to this number may be sent; perhaps a new buffer is published
  IoMap = 6,    // this entry of the I/O map was written
  Control = 7,
};
enum class Control : std::uint32_t { Disconnect = 0, KeepAlive = 1, Shutdown = 2 };

inline constexpr std::uint32_t kValueBits = 29;
inline constexpr std::uint32_t kMaxValue = (1U << kValueBits) - 1;

[[nodiscard]] constexpr std::uint32_t message(MessageType type, std::uint32_t value) {
  return static_cast<std::uint32_t>(type) << kValueBits | (value & kMaxValue);
}
[[nodiscard]] constexpr MessageType type_of(std::uint32_t message) {
  return static_cast<MessageType>(message >> kValueBits);
}
[[nodiscard]] constexpr std::uint32_t value_of(std::uint32_t message) {
  return message & kMaxValue;
}

/// An entry of the I/O map: a buffer of the other end that a stretch of offsets stands for.
struct IoMapEntry {
  std::uint64_t offset{};
  std::uint64_t address{};
  std::uint32_t key{};
  std::uint32_t length{};
  bool operator==(const IoMapEntry&) const = default;
  // clang-format off
  using Wire = wire::Layout<24,
      wire::Field<"Offset",  64, &IoMapEntry::offset>,
      wire::Field<"Address", 64, &IoMapEntry::address>,
      wire::Field<"Key",     32, &IoMapEntry::key>,
      wire::Field<"Length",  32, &IoMapEntry::length>>;
  // clang-format on
};
inline constexpr std::size_t kTargetBytes = wire::kSizeOf<Target>;
inline constexpr std::size_t kIoMapEntryBytes = wire::kSizeOf<IoMapEntry>;

/// Entries of the array of targets: two buffers are published by turns.
inline constexpr std::uint32_t kTargets = 2;

}  // namespace weft::rsockets
