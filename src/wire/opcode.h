#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/flags.h"

namespace weft::wire {

enum class Transport : std::uint8_t { Rc = 0, Uc = 1, Rd = 2, Ud = 3, Cnp = 4, Xrc = 5 };

/// BTH opcodes: three bits of transport, five of operation (IBTA vol 1 Table 38).
enum class Opcode : std::uint8_t {
  RcSendFirst = 0x00,
  RcSendMiddle,
  RcSendLast,
  RcSendLastWithImmediate,
  RcSendOnly,
  RcSendOnlyWithImmediate,
  RcRdmaWriteFirst,
  RcRdmaWriteMiddle,
  RcRdmaWriteLast,
  RcRdmaWriteLastWithImmediate,
  RcRdmaWriteOnly,
  RcRdmaWriteOnlyWithImmediate,
  RcRdmaReadRequest,
  RcRdmaReadResponseFirst,
  RcRdmaReadResponseMiddle,
  RcRdmaReadResponseLast,
  RcRdmaReadResponseOnly,
  RcAcknowledge,
  RcAtomicAcknowledge,
  RcCompareSwap,
  RcFetchAdd,
  RcSendLastWithInvalidate = 0x16,
  RcSendOnlyWithInvalidate,
  RcFlush = 0x1C,  // annex A19
  RcAtomicWrite,   // annex A19
  UcSendFirst = 0x20,
  UcSendMiddle,
  UcSendLast,
  UcSendLastWithImmediate,
  UcSendOnly,
  UcSendOnlyWithImmediate,
  UcRdmaWriteFirst,
  UcRdmaWriteMiddle,
  UcRdmaWriteLast,
  UcRdmaWriteLastWithImmediate,
  UcRdmaWriteOnly,
  UcRdmaWriteOnlyWithImmediate,
  UdSendOnly = 0x64,
  UdSendOnlyWithImmediate = 0x65,
  Cnp = 0x81,
  XrcSendFirst = 0xA0,
  XrcSendMiddle,
  XrcSendLast,
  XrcSendLastWithImmediate,
  XrcSendOnly,
  XrcSendOnlyWithImmediate,
  XrcRdmaWriteFirst,
  XrcRdmaWriteMiddle,
  XrcRdmaWriteLast,
  XrcRdmaWriteLastWithImmediate,
  XrcRdmaWriteOnly,
  XrcRdmaWriteOnlyWithImmediate,
  XrcRdmaReadRequest,
  XrcRdmaReadResponseFirst,
  XrcRdmaReadResponseMiddle,
  XrcRdmaReadResponseLast,
  XrcRdmaReadResponseOnly,
  XrcAcknowledge,
  XrcAtomicAcknowledge,
  XrcCompareSwap,
  XrcFetchAdd,
  XrcSendLastWithInvalidate = 0xB6,
  XrcSendOnlyWithInvalidate,
  XrcFlush = 0xBC,
};

enum class Operation : std::uint8_t {
  Send,
  RdmaWrite,
  RdmaReadRequest,
  RdmaReadResponse,
  Acknowledge,
  AtomicAcknowledge,
  CompareSwap,
  FetchAdd,
  AtomicWrite,
  Flush,
  CongestionNotification,
};

/// True for opcodes sent by a responder; the rest are requests (and congestion notifications).
[[nodiscard]] constexpr bool is_response(Operation operation) {
  return operation == Operation::RdmaReadResponse || operation == Operation::Acknowledge ||
         operation == Operation::AtomicAcknowledge;
}

/// Position of a packet in its message.
enum class Position : std::uint8_t { First, Middle, Last, Only };

enum class ExtensionHeader : std::uint16_t {
  Rdeth = 1U << 0,
  Deth = 1U << 1,
  Xrceth = 1U << 2,
  Reth = 1U << 3,
  AtomicEth = 1U << 4,
  Aeth = 1U << 5,
  AtomicAckEth = 1U << 6,
  Immediate = 1U << 7,
  Ieth = 1U << 8,
  Feth = 1U << 9,
};
using ExtensionHeaders = Flags<ExtensionHeader>;

/// Required payload length (IBTA vol 1 §9.4, Table 38).
enum class PayloadRule : std::uint8_t {
  None,      ///< no payload
  FullMtu,   ///< exactly the path MTU
  UpToMtu,   ///< 0 to the path MTU
  OneToMtu,  ///< 1 to the path MTU
  Reserved,  ///< contents are not payload (CNP: 16 reserved bytes)
};

struct OpcodeInfo {
  Opcode opcode{};
  std::string_view name;
  Transport transport{};
  Operation operation{};
  Position position{};
  ExtensionHeaders headers;
  PayloadRule payload{};
};

/// The row of an opcode; null if the opcode is reserved or not supported (RD).
[[nodiscard]] const OpcodeInfo* opcode_info(Opcode opcode);

/// All rows, by opcode.
[[nodiscard]] std::span<const OpcodeInfo> opcode_table();

/// The opcode of a SEND, WRITE or READ response packet. Asserts that it exists.
[[nodiscard]] Opcode make_opcode(Transport transport, Operation operation, Position position,
                                 bool immediate, bool invalidate);

}  // namespace weft::wire
