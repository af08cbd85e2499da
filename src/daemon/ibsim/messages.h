#pragma once

// What ibsim and programs preloaded with libumad2sim say to each other, in datagrams (layouts as in
// ibsim's include/ibsim.h). A program asks questions at `NAME:ctl` from `NAME:ctlPID`; once it is
// connected, its MADs go from `NAME:inPID` to `NAME:outCLIENT` and back. All are abstract names.
// Numbers are the machine's own, but where umad has them in network order. Pure.

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

enum class IbsimQuestion : std::uint32_t {
  Error = 0,  // in answers alone
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

/// A question, and its answer.
struct IbsimControl {
  static constexpr std::uint32_t kMagic = 0xDEAD'BEEF;
  std::uint32_t magic{kMagic};
  std::uint32_t client{};  // as Connect gave it
  IbsimQuestion question{};
  std::uint32_t length{};
  std::array<std::byte, 64> data{};
};
static_assert(sizeof(IbsimControl) == 80);

/// Of Connect.
struct IbsimConnect {
  std::uint32_t id{};  // the program's process, which is in its names; in the answer the client
  std::uint32_t qp{};
  std::uint32_t is_sm{};
  std::array<char, 32> node{};
};
static_assert(sizeof(IbsimConnect) == 44);

/// Of Port.
struct IbsimPort {
  std::uint16_t lid{};
  std::uint8_t state{};
  std::uint8_t unused{};
};
static_assert(sizeof(IbsimPort) == 4);

/// Of Vendor.
struct IbsimVendor {
  std::uint32_t vendor{};
  std::uint32_t device{};
  std::uint32_t revision{};
  std::uint32_t unused{};
  std::uint64_t firmware{};
};
static_assert(sizeof(IbsimVendor) == 24);

/// A MAD in either direction; what is behind the name is in network order.
struct IbsimPacket {
  std::uint32_t dlid_be{};  // 16 bits, in the first two bytes
  std::uint32_t slid_be{};
  std::uint32_t dqp_be{};
  std::uint32_t sqp_be{};
  std::uint32_t status_be{};  // an errno: why a MAD comes back
  std::uint32_t unused{};
  std::uint64_t length_be{};
  std::array<std::byte, 256> mad{};
};
static_assert(sizeof(IbsimPacket) == 288);

/// Numbers in network order.
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

/// A datagram as a structure of the same size; none if it has another.
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

/// What a question or an answer carries.
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

/// The node's name as the program says it: up to 31 letters, then a NUL.
[[nodiscard]] std::string name_in(const IbsimConnect& connect);
/// What is too long is cut.
void set_name(IbsimConnect& connect, std::string_view name);

/// `sim:ctl`, `sim:in812`: a name without the NULs around it.
[[nodiscard]] std::string ibsim_name(std::string_view base, std::string_view what,
                                     std::optional<std::uint32_t> number = {});

/// How programs may name a node besides by its name: `H-` or `S-` and its GUID, as in files.
[[nodiscard]] std::optional<Guid> guid_in_ibsim_name(std::string_view name);

}  // namespace weft::daemon
