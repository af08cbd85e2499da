#pragma once

// Messages between ibsim and programs preloaded with libumad2sim, one per datagram (layouts as in
// ibsim's include/ibsim.h). A program sends requests to `NAME:ctl` from `NAME:ctlPID`; after
// Connect, MADs go from `NAME:inPID` to `NAME:outCLIENT` and back. All are abstract socket names.
// Integers are in host byte order, except those that umad defines in network byte order. Pure.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/identifiers.h"

namespace weft::daemon {

/// Type of a control request.
enum class IbsimRequest : std::uint32_t {
  Error = 0,  // in answers only
  Connect = 1,
  Disconnect = 2,
  Port = 3,
  Vendor = 4,
  Gid = 5,
  Guid = 6,
  NodeInfo = 7,
  PortInfo = 8,
  IsSm = 9,
  PKeys = 10,
};

/// A control request, or its answer.
struct IbsimControl {
  static constexpr std::uint32_t kMagic = 0xDEAD'BEEF;
  std::uint32_t magic{kMagic};
  std::uint32_t client{};  // as assigned by Connect
  IbsimRequest question{};
  std::uint32_t length{};
  std::array<std::byte, 64> data{};
};
static_assert(sizeof(IbsimControl) == 80);

/// Data of Connect.
struct IbsimConnect {
  std::uint32_t id{};  // process ID, as used in the socket names; in the answer, the client number
  std::uint32_t qp{};
  std::uint32_t is_sm{};
  std::array<char, 32> node{};
};
static_assert(sizeof(IbsimConnect) == 44);

/// Data of Port.
struct IbsimPort {
  std::uint16_t lid{};
  std::uint8_t state{};
  std::uint8_t unused{};
};
static_assert(sizeof(IbsimPort) == 4);

/// Data of Vendor.
struct IbsimVendor {
  std::uint32_t vendor{};
  std::uint32_t device{};
  std::uint32_t revision{};
  std::uint32_t unused{};
  std::uint64_t firmware{};
};
static_assert(sizeof(IbsimVendor) == 24);

/// A MAD in either direction. All fields with suffix _be are in network byte order.
struct IbsimPacket {
  std::uint32_t dlid_be{};  // 16 bits, in the first two bytes
  std::uint32_t slid_be{};
  std::uint32_t dqp_be{};
  std::uint32_t sqp_be{};
  std::uint32_t status_be{};  // errno for a MAD that is returned
  std::uint32_t unused{};
  std::uint64_t length_be{};
  std::array<std::byte, 256> mad{};
};
static_assert(sizeof(IbsimPacket) == 288);

/// Byte order conversion.
template <class T>
[[nodiscard]] constexpr T swapped(T value) {
  static_assert(std::endian::native == std::endian::little);
  return std::byteswap(value);
}
[[nodiscard]] constexpr std::uint32_t lid_to_ibsim(Lid lid) {
  return swapped(static_cast<std::uint16_t>(lid.value()));
}
[[nodiscard]] constexpr Lid lid_from_ibsim(std::uint32_t lid_be) {
  return Lid{swapped(static_cast<std::uint16_t>(lid_be))};
}

/// Reinterprets a datagram as a structure of exactly its size; none if sizes differ.
template <class Struct>
[[nodiscard]] std::optional<Struct> read_ibsim(ByteSpan datagram) {
  std::array<std::byte, sizeof(Struct)> bytes{};
  if (datagram.size() != bytes.size()) {
    return std::nullopt;
  }
  copy_bytes(bytes, datagram);
  return std::bit_cast<Struct>(bytes);
}
template <class Struct>
[[nodiscard]] std::array<std::byte, sizeof(Struct)> write_ibsim(const Struct& message) {
  return std::bit_cast<std::array<std::byte, sizeof(Struct)>>(message);
}

/// The data of a request or an answer.
template <class Struct>
[[nodiscard]] Struct data_of(const IbsimControl& control) {
  static_assert(sizeof(Struct) <= sizeof control.data);
  std::array<std::byte, sizeof(Struct)> bytes{};
  copy_bytes(bytes, ByteSpan{control.data}.first(bytes.size()));
  return std::bit_cast<Struct>(bytes);
}
template <class Struct>
void set_data(IbsimControl& control, const Struct& data) {
  static_assert(sizeof(Struct) <= sizeof control.data);
  copy_bytes(control.data, write_ibsim(data));
}

/// The node name: up to 31 characters and a NUL.
[[nodiscard]] std::string name_in(const IbsimConnect& connect);
/// Truncates a name that is too long.
void set_name(IbsimConnect& connect, std::string_view name);

/// Builds `sim:ctl` or `sim:in812`; without the NULs around it.
[[nodiscard]] std::string ibsim_name(std::string_view base, std::string_view what,
                                     std::optional<std::uint32_t> number = {});

/// The GUID in an alternative node name, `H-GUID` or `S-GUID`, as in ibsim's network files.
[[nodiscard]] std::optional<Guid> guid_in_ibsim_name(std::string_view name);

}  // namespace weft::daemon
