#include "wire/opcode.h"

#include <array>
#include <cassert>
#include <cstddef>

namespace weft::wire {
namespace {

using H = ExtensionHeader;
using Headers = ExtensionHeaders;

// IBTA vol 1 Table 38 (OpCode field), annex A14 (XRC: requests carry an XRCETH), annex A19 (ATOMIC
// WRITE).
constexpr auto kOpcodes = [] {
  using enum Opcode;
  using T = Transport;
  using O = Operation;
  using P = Position;
  using Rule = PayloadRule;
  // clang-format off
  return std::to_array<OpcodeInfo>({
      {RcSendFirst,                   "RC SEND First",                      T::Rc,  O::Send,                   P::First,  {},                                          Rule::FullMtu},
      {RcSendMiddle,                  "RC SEND Middle",                     T::Rc,  O::Send,                   P::Middle, {},                                          Rule::FullMtu},
      {RcSendLast,                    "RC SEND Last",                       T::Rc,  O::Send,                   P::Last,   {},                                          Rule::OneToMtu},
      {RcSendLastWithImmediate,       "RC SEND Last with Immediate",        T::Rc,  O::Send,                   P::Last,   H::Immediate,                                Rule::OneToMtu},
      {RcSendOnly,                    "RC SEND Only",                       T::Rc,  O::Send,                   P::Only,   {},                                          Rule::UpToMtu},
      {RcSendOnlyWithImmediate,       "RC SEND Only with Immediate",        T::Rc,  O::Send,                   P::Only,   H::Immediate,                                Rule::UpToMtu},
      {RcRdmaWriteFirst,              "RC RDMA WRITE First",                T::Rc,  O::RdmaWrite,              P::First,  H::Reth,                                     Rule::FullMtu},
      {RcRdmaWriteMiddle,             "RC RDMA WRITE Middle",               T::Rc,  O::RdmaWrite,              P::Middle, {},                                          Rule::FullMtu},
      {RcRdmaWriteLast,               "RC RDMA WRITE Last",                 T::Rc,  O::RdmaWrite,              P::Last,   {},                                          Rule::OneToMtu},
      {RcRdmaWriteLastWithImmediate,  "RC RDMA WRITE Last with Immediate",  T::Rc,  O::RdmaWrite,              P::Last,   H::Immediate,                                Rule::OneToMtu},
      {RcRdmaWriteOnly,               "RC RDMA WRITE Only",                 T::Rc,  O::RdmaWrite,              P::Only,   H::Reth,                                     Rule::UpToMtu},
      {RcRdmaWriteOnlyWithImmediate,  "RC RDMA WRITE Only with Immediate",  T::Rc,  O::RdmaWrite,              P::Only,   Headers{H::Reth} | H::Immediate,             Rule::UpToMtu},
      {RcRdmaReadRequest,             "RC RDMA READ Request",               T::Rc,  O::RdmaReadRequest,        P::Only,   H::Reth,                                     Rule::None},
      {RcRdmaReadResponseFirst,       "RC RDMA READ Response First",        T::Rc,  O::RdmaReadResponse,       P::First,  H::Aeth,                                     Rule::FullMtu},
      {RcRdmaReadResponseMiddle,      "RC RDMA READ Response Middle",       T::Rc,  O::RdmaReadResponse,       P::Middle, {},                                          Rule::FullMtu},
      {RcRdmaReadResponseLast,        "RC RDMA READ Response Last",         T::Rc,  O::RdmaReadResponse,       P::Last,   H::Aeth,                                     Rule::OneToMtu},
      {RcRdmaReadResponseOnly,        "RC RDMA READ Response Only",         T::Rc,  O::RdmaReadResponse,       P::Only,   H::Aeth,                                     Rule::UpToMtu},
      {RcAcknowledge,                 "RC Acknowledge",                     T::Rc,  O::Acknowledge,            P::Only,   H::Aeth,                                     Rule::None},
      {RcAtomicAcknowledge,           "RC Atomic Acknowledge",              T::Rc,  O::AtomicAcknowledge,      P::Only,   Headers{H::Aeth} | H::AtomicAckEth,          Rule::None},
      {RcCompareSwap,                 "RC CmpSwap",                         T::Rc,  O::CompareSwap,            P::Only,   H::AtomicEth,                                Rule::None},
      {RcFetchAdd,                    "RC FetchAdd",                        T::Rc,  O::FetchAdd,               P::Only,   H::AtomicEth,                                Rule::None},
      {RcSendLastWithInvalidate,      "RC SEND Last with Invalidate",       T::Rc,  O::Send,                   P::Last,   H::Ieth,                                     Rule::OneToMtu},
      {RcSendOnlyWithInvalidate,      "RC SEND Only with Invalidate",       T::Rc,  O::Send,                   P::Only,   H::Ieth,                                     Rule::UpToMtu},
      {RcAtomicWrite,                 "RC ATOMIC WRITE",                    T::Rc,  O::AtomicWrite,            P::Only,   H::Reth,                                     Rule::UpToMtu},
      {UcSendFirst,                   "UC SEND First",                      T::Uc,  O::Send,                   P::First,  {},                                          Rule::FullMtu},
      {UcSendMiddle,                  "UC SEND Middle",                     T::Uc,  O::Send,                   P::Middle, {},                                          Rule::FullMtu},
      {UcSendLast,                    "UC SEND Last",                       T::Uc,  O::Send,                   P::Last,   {},                                          Rule::OneToMtu},
      {UcSendLastWithImmediate,       "UC SEND Last with Immediate",        T::Uc,  O::Send,                   P::Last,   H::Immediate,                                Rule::OneToMtu},
      {UcSendOnly,                    "UC SEND Only",                       T::Uc,  O::Send,                   P::Only,   {},                                          Rule::UpToMtu},
      {UcSendOnlyWithImmediate,       "UC SEND Only with Immediate",        T::Uc,  O::Send,                   P::Only,   H::Immediate,                                Rule::UpToMtu},
      {UcRdmaWriteFirst,              "UC RDMA WRITE First",                T::Uc,  O::RdmaWrite,              P::First,  H::Reth,                                     Rule::FullMtu},
      {UcRdmaWriteMiddle,             "UC RDMA WRITE Middle",               T::Uc,  O::RdmaWrite,              P::Middle, {},                                          Rule::FullMtu},
      {UcRdmaWriteLast,               "UC RDMA WRITE Last",                 T::Uc,  O::RdmaWrite,              P::Last,   {},                                          Rule::OneToMtu},
      {UcRdmaWriteLastWithImmediate,  "UC RDMA WRITE Last with Immediate",  T::Uc,  O::RdmaWrite,              P::Last,   H::Immediate,                                Rule::OneToMtu},
      {UcRdmaWriteOnly,               "UC RDMA WRITE Only",                 T::Uc,  O::RdmaWrite,              P::Only,   H::Reth,                                     Rule::UpToMtu},
      {UcRdmaWriteOnlyWithImmediate,  "UC RDMA WRITE Only with Immediate",  T::Uc,  O::RdmaWrite,              P::Only,   Headers{H::Reth} | H::Immediate,             Rule::UpToMtu},
      {UdSendOnly,                    "UD SEND Only",                       T::Ud,  O::Send,                   P::Only,   H::Deth,                                     Rule::UpToMtu},
      {UdSendOnlyWithImmediate,       "UD SEND Only with Immediate",        T::Ud,  O::Send,                   P::Only,   Headers{H::Deth} | H::Immediate,             Rule::UpToMtu},
      {Cnp,                           "CNP",                                T::Cnp, O::CongestionNotification, P::Only,   {},                                          Rule::Reserved},
      {XrcSendFirst,                  "XRC SEND First",                     T::Xrc, O::Send,                   P::First,  H::Xrceth,                                   Rule::FullMtu},
      {XrcSendMiddle,                 "XRC SEND Middle",                    T::Xrc, O::Send,                   P::Middle, H::Xrceth,                                   Rule::FullMtu},
      {XrcSendLast,                   "XRC SEND Last",                      T::Xrc, O::Send,                   P::Last,   H::Xrceth,                                   Rule::OneToMtu},
      {XrcSendLastWithImmediate,      "XRC SEND Last with Immediate",       T::Xrc, O::Send,                   P::Last,   Headers{H::Xrceth} | H::Immediate,           Rule::OneToMtu},
      {XrcSendOnly,                   "XRC SEND Only",                      T::Xrc, O::Send,                   P::Only,   H::Xrceth,                                   Rule::UpToMtu},
      {XrcSendOnlyWithImmediate,      "XRC SEND Only with Immediate",       T::Xrc, O::Send,                   P::Only,   Headers{H::Xrceth} | H::Immediate,           Rule::UpToMtu},
      {XrcRdmaWriteFirst,             "XRC RDMA WRITE First",               T::Xrc, O::RdmaWrite,              P::First,  Headers{H::Xrceth} | H::Reth,                Rule::FullMtu},
      {XrcRdmaWriteMiddle,            "XRC RDMA WRITE Middle",              T::Xrc, O::RdmaWrite,              P::Middle, H::Xrceth,                                   Rule::FullMtu},
      {XrcRdmaWriteLast,              "XRC RDMA WRITE Last",                T::Xrc, O::RdmaWrite,              P::Last,   H::Xrceth,                                   Rule::OneToMtu},
      {XrcRdmaWriteLastWithImmediate, "XRC RDMA WRITE Last with Immediate", T::Xrc, O::RdmaWrite,              P::Last,   Headers{H::Xrceth} | H::Immediate,           Rule::OneToMtu},
      {XrcRdmaWriteOnly,              "XRC RDMA WRITE Only",                T::Xrc, O::RdmaWrite,              P::Only,   Headers{H::Xrceth} | H::Reth,                Rule::UpToMtu},
      {XrcRdmaWriteOnlyWithImmediate, "XRC RDMA WRITE Only with Immediate", T::Xrc, O::RdmaWrite,              P::Only,   Headers{H::Xrceth} | H::Reth | H::Immediate, Rule::UpToMtu},
      {XrcRdmaReadRequest,            "XRC RDMA READ Request",              T::Xrc, O::RdmaReadRequest,        P::Only,   Headers{H::Xrceth} | H::Reth,                Rule::None},
      {XrcRdmaReadResponseFirst,      "XRC RDMA READ Response First",       T::Xrc, O::RdmaReadResponse,       P::First,  H::Aeth,                                     Rule::FullMtu},
      {XrcRdmaReadResponseMiddle,     "XRC RDMA READ Response Middle",      T::Xrc, O::RdmaReadResponse,       P::Middle, {},                                          Rule::FullMtu},
      {XrcRdmaReadResponseLast,       "XRC RDMA READ Response Last",        T::Xrc, O::RdmaReadResponse,       P::Last,   H::Aeth,                                     Rule::OneToMtu},
      {XrcRdmaReadResponseOnly,       "XRC RDMA READ Response Only",        T::Xrc, O::RdmaReadResponse,       P::Only,   H::Aeth,                                     Rule::UpToMtu},
      {XrcAcknowledge,                "XRC Acknowledge",                    T::Xrc, O::Acknowledge,            P::Only,   H::Aeth,                                     Rule::None},
      {XrcAtomicAcknowledge,          "XRC Atomic Acknowledge",             T::Xrc, O::AtomicAcknowledge,      P::Only,   Headers{H::Aeth} | H::AtomicAckEth,          Rule::None},
      {XrcCompareSwap,                "XRC CmpSwap",                        T::Xrc, O::CompareSwap,            P::Only,   Headers{H::Xrceth} | H::AtomicEth,           Rule::None},
      {XrcFetchAdd,                   "XRC FetchAdd",                       T::Xrc, O::FetchAdd,               P::Only,   Headers{H::Xrceth} | H::AtomicEth,           Rule::None},
      {XrcSendLastWithInvalidate,     "XRC SEND Last with Invalidate",      T::Xrc, O::Send,                   P::Last,   Headers{H::Xrceth} | H::Ieth,                Rule::OneToMtu},
      {XrcSendOnlyWithInvalidate,     "XRC SEND Only with Invalidate",      T::Xrc, O::Send,                   P::Only,   Headers{H::Xrceth} | H::Ieth,                Rule::UpToMtu},
  });
  // clang-format on
}();

constexpr std::array<const OpcodeInfo*, 256> kRowOf = [] {
  std::array<const OpcodeInfo*, 256> rows{};
  for (const OpcodeInfo& row : kOpcodes) {
    rows[static_cast<std::uint8_t>(row.opcode)] = &row;
  }
  return rows;
}();

}  // namespace

const OpcodeInfo* opcode_info(Opcode opcode) { return kRowOf[static_cast<std::uint8_t>(opcode)]; }

std::span<const OpcodeInfo> opcode_table() { return kOpcodes; }

Opcode make_opcode(Transport transport, Operation operation, Position position, bool immediate,
                   bool invalidate) {
  // Operation numbers are the same for all transports.
  unsigned number = 0;
  const auto place = static_cast<unsigned>(position);
  switch (operation) {
    case Operation::Send: {
      static constexpr std::array<unsigned, 4> kSend = {0x00, 0x01, 0x02, 0x04};
      number = kSend[place] + (immediate ? 1U : 0U);
      if (invalidate) {
        number = position == Position::Only ? 0x17 : 0x16;
      }
      break;
    }
    case Operation::RdmaWrite: {
      static constexpr std::array<unsigned, 4> kWrite = {0x06, 0x07, 0x08, 0x0A};
      number = kWrite[place] + (immediate ? 1U : 0U);
      break;
    }
    case Operation::RdmaReadResponse:
      number = 0x0D + place;
      break;
    case Operation::RdmaReadRequest:
      number = 0x0C;
      break;
    case Operation::Acknowledge:
      number = 0x11;
      break;
    case Operation::AtomicAcknowledge:
      number = 0x12;
      break;
    case Operation::CompareSwap:
      number = 0x13;
      break;
    case Operation::FetchAdd:
      number = 0x14;
      break;
    case Operation::AtomicWrite:
      number = 0x1D;
      break;
    case Operation::CongestionNotification:
      number = 0x01;
      break;
  }
  const auto opcode = static_cast<Opcode>(static_cast<unsigned>(transport) << 5 | number);
  assert(opcode_info(opcode) != nullptr);
  return opcode;
}

}  // namespace weft::wire
