#include "wire/opcode.h"

#include <array>
#include <cstddef>

#include "base/assert.h"

namespace weft::wire {
namespace {

using H = ExtensionHeader;
using Headers = ExtensionHeaders;

// IBTA vol 1 Table 38 (OpCode field), the XRC annex A14: requests carry an XRCETH, and A19 of
// FLUSH and ATOMIC WRITE.
constexpr auto kOpcodes = std::to_array<OpcodeInfo>({
    {Opcode::RcSendFirst,
     "RC SEND First",                                                             Transport::Rc,
     Operation::Send,
     Position::First,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::RcSendMiddle,
     "RC SEND Middle",                                                            Transport::Rc,
     Operation::Send,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::RcSendLast,
     "RC SEND Last",                                                              Transport::Rc,
     Operation::Send,
     Position::Last,
     {},
     PayloadRule::OneToMtu                                                                                                                                                                                        },
    {Opcode::RcSendLastWithImmediate,       "RC SEND Last with Immediate",        Transport::Rc,  Operation::Send,
     Position::Last,                                                                                                                            H::Immediate,                                PayloadRule::OneToMtu},
    {Opcode::RcSendOnly,
     "RC SEND Only",                                                              Transport::Rc,
     Operation::Send,
     Position::Only,
     {},
     PayloadRule::UpToMtu                                                                                                                                                                                         },
    {Opcode::RcSendOnlyWithImmediate,       "RC SEND Only with Immediate",        Transport::Rc,  Operation::Send,
     Position::Only,                                                                                                                            H::Immediate,                                PayloadRule::UpToMtu },
    {Opcode::RcRdmaWriteFirst,              "RC RDMA WRITE First",                Transport::Rc,  Operation::RdmaWrite,
     Position::First,                                                                                                                           H::Reth,                                     PayloadRule::FullMtu },
    {Opcode::RcRdmaWriteMiddle,
     "RC RDMA WRITE Middle",                                                      Transport::Rc,
     Operation::RdmaWrite,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::RcRdmaWriteLast,
     "RC RDMA WRITE Last",                                                        Transport::Rc,
     Operation::RdmaWrite,
     Position::Last,
     {},
     PayloadRule::OneToMtu                                                                                                                                                                                        },
    {Opcode::RcRdmaWriteLastWithImmediate,  "RC RDMA WRITE Last with Immediate",  Transport::Rc,
     Operation::RdmaWrite,                                                                                                    Position::Last,   H::Immediate,                                PayloadRule::OneToMtu},
    {Opcode::RcRdmaWriteOnly,               "RC RDMA WRITE Only",                 Transport::Rc,  Operation::RdmaWrite,
     Position::Only,                                                                                                                            H::Reth,                                     PayloadRule::UpToMtu },
    {Opcode::RcRdmaWriteOnlyWithImmediate,  "RC RDMA WRITE Only with Immediate",  Transport::Rc,
     Operation::RdmaWrite,                                                                                                    Position::Only,   Headers{H::Reth} | H::Immediate,             PayloadRule::UpToMtu },
    {Opcode::RcRdmaReadRequest,             "RC RDMA READ Request",               Transport::Rc,  Operation::RdmaReadRequest,
     Position::Only,                                                                                                                            H::Reth,                                     PayloadRule::None    },
    {Opcode::RcRdmaReadResponseFirst,       "RC RDMA READ Response First",        Transport::Rc,
     Operation::RdmaReadResponse,                                                                                             Position::First,  H::Aeth,                                     PayloadRule::FullMtu },
    {Opcode::RcRdmaReadResponseMiddle,
     "RC RDMA READ Response Middle",                                              Transport::Rc,
     Operation::RdmaReadResponse,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::RcRdmaReadResponseLast,        "RC RDMA READ Response Last",         Transport::Rc,
     Operation::RdmaReadResponse,                                                                                             Position::Last,   H::Aeth,                                     PayloadRule::OneToMtu},
    {Opcode::RcRdmaReadResponseOnly,        "RC RDMA READ Response Only",         Transport::Rc,
     Operation::RdmaReadResponse,                                                                                             Position::Only,   H::Aeth,                                     PayloadRule::UpToMtu },
    {Opcode::RcAcknowledge,                 "RC Acknowledge",                     Transport::Rc,  Operation::Acknowledge,     Position::Only,
     H::Aeth,                                                                                                                                                                                PayloadRule::None    },
    {Opcode::RcAtomicAcknowledge,           "RC Atomic Acknowledge",              Transport::Rc,
     Operation::AtomicAcknowledge,                                                                                            Position::Only,   Headers{H::Aeth} | H::AtomicAckEth,
     PayloadRule::None                                                                                                                                                                                            },
    {Opcode::RcCompareSwap,                 "RC CmpSwap",                         Transport::Rc,  Operation::CompareSwap,     Position::Only,
     H::AtomicEth,                                                                                                                                                                           PayloadRule::None    },
    {Opcode::RcFetchAdd,                    "RC FetchAdd",                        Transport::Rc,  Operation::FetchAdd,        Position::Only,
     H::AtomicEth,                                                                                                                                                                           PayloadRule::None    },
    {Opcode::RcSendLastWithInvalidate,      "RC SEND Last with Invalidate",       Transport::Rc,
     Operation::Send,                                                                                                         Position::Last,   H::Ieth,                                     PayloadRule::OneToMtu},
    {Opcode::RcSendOnlyWithInvalidate,      "RC SEND Only with Invalidate",       Transport::Rc,
     Operation::Send,                                                                                                         Position::Only,   H::Ieth,                                     PayloadRule::UpToMtu },
    {Opcode::RcFlush,                       "RC FLUSH",                           Transport::Rc,  Operation::Flush,           Position::Only,
     Headers{H::Feth} | H::Reth,                                                                                                                                                             PayloadRule::None    },
    {Opcode::RcAtomicWrite,                 "RC ATOMIC WRITE",                    Transport::Rc,  Operation::AtomicWrite,
     Position::Only,                                                                                                                            H::Reth,                                     PayloadRule::UpToMtu },
    {Opcode::UcSendFirst,
     "UC SEND First",                                                             Transport::Uc,
     Operation::Send,
     Position::First,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::UcSendMiddle,
     "UC SEND Middle",                                                            Transport::Uc,
     Operation::Send,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::UcSendLast,
     "UC SEND Last",                                                              Transport::Uc,
     Operation::Send,
     Position::Last,
     {},
     PayloadRule::OneToMtu                                                                                                                                                                                        },
    {Opcode::UcSendLastWithImmediate,       "UC SEND Last with Immediate",        Transport::Uc,  Operation::Send,
     Position::Last,                                                                                                                            H::Immediate,                                PayloadRule::OneToMtu},
    {Opcode::UcSendOnly,
     "UC SEND Only",                                                              Transport::Uc,
     Operation::Send,
     Position::Only,
     {},
     PayloadRule::UpToMtu                                                                                                                                                                                         },
    {Opcode::UcSendOnlyWithImmediate,       "UC SEND Only with Immediate",        Transport::Uc,  Operation::Send,
     Position::Only,                                                                                                                            H::Immediate,                                PayloadRule::UpToMtu },
    {Opcode::UcRdmaWriteFirst,              "UC RDMA WRITE First",                Transport::Uc,  Operation::RdmaWrite,
     Position::First,                                                                                                                           H::Reth,                                     PayloadRule::FullMtu },
    {Opcode::UcRdmaWriteMiddle,
     "UC RDMA WRITE Middle",                                                      Transport::Uc,
     Operation::RdmaWrite,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::UcRdmaWriteLast,
     "UC RDMA WRITE Last",                                                        Transport::Uc,
     Operation::RdmaWrite,
     Position::Last,
     {},
     PayloadRule::OneToMtu                                                                                                                                                                                        },
    {Opcode::UcRdmaWriteLastWithImmediate,  "UC RDMA WRITE Last with Immediate",  Transport::Uc,
     Operation::RdmaWrite,                                                                                                    Position::Last,   H::Immediate,                                PayloadRule::OneToMtu},
    {Opcode::UcRdmaWriteOnly,               "UC RDMA WRITE Only",                 Transport::Uc,  Operation::RdmaWrite,
     Position::Only,                                                                                                                            H::Reth,                                     PayloadRule::UpToMtu },
    {Opcode::UcRdmaWriteOnlyWithImmediate,  "UC RDMA WRITE Only with Immediate",  Transport::Uc,
     Operation::RdmaWrite,                                                                                                    Position::Only,   Headers{H::Reth} | H::Immediate,             PayloadRule::UpToMtu },
    {Opcode::UdSendOnly,                    "UD SEND Only",                       Transport::Ud,  Operation::Send,            Position::Only,   H::Deth,
     PayloadRule::UpToMtu                                                                                                                                                                                         },
    {Opcode::UdSendOnlyWithImmediate,       "UD SEND Only with Immediate",        Transport::Ud,  Operation::Send,
     Position::Only,                                                                                                                            Headers{H::Deth} | H::Immediate,             PayloadRule::UpToMtu },
    {Opcode::Cnp,
     "CNP",                                                                       Transport::Cnp,
     Operation::CongestionNotification,
     Position::Only,
     {},
     PayloadRule::Reserved                                                                                                                                                                                        },
    {Opcode::XrcSendFirst,                  "XRC SEND First",                     Transport::Xrc, Operation::Send,            Position::First,
     H::Xrceth,                                                                                                                                                                              PayloadRule::FullMtu },
    {Opcode::XrcSendMiddle,                 "XRC SEND Middle",                    Transport::Xrc, Operation::Send,            Position::Middle,
     H::Xrceth,                                                                                                                                                                              PayloadRule::FullMtu },
    {Opcode::XrcSendLast,                   "XRC SEND Last",                      Transport::Xrc, Operation::Send,            Position::Last,
     H::Xrceth,                                                                                                                                                                              PayloadRule::OneToMtu},
    {Opcode::XrcSendLastWithImmediate,      "XRC SEND Last with Immediate",       Transport::Xrc,
     Operation::Send,                                                                                                         Position::Last,   Headers{H::Xrceth} | H::Immediate,           PayloadRule::OneToMtu},
    {Opcode::XrcSendOnly,                   "XRC SEND Only",                      Transport::Xrc, Operation::Send,            Position::Only,
     H::Xrceth,                                                                                                                                                                              PayloadRule::UpToMtu },
    {Opcode::XrcSendOnlyWithImmediate,      "XRC SEND Only with Immediate",       Transport::Xrc,
     Operation::Send,                                                                                                         Position::Only,   Headers{H::Xrceth} | H::Immediate,           PayloadRule::UpToMtu },
    {Opcode::XrcRdmaWriteFirst,             "XRC RDMA WRITE First",               Transport::Xrc, Operation::RdmaWrite,
     Position::First,                                                                                                                           Headers{H::Xrceth} | H::Reth,                PayloadRule::FullMtu },
    {Opcode::XrcRdmaWriteMiddle,            "XRC RDMA WRITE Middle",              Transport::Xrc, Operation::RdmaWrite,
     Position::Middle,                                                                                                                          H::Xrceth,                                   PayloadRule::FullMtu },
    {Opcode::XrcRdmaWriteLast,              "XRC RDMA WRITE Last",                Transport::Xrc, Operation::RdmaWrite,
     Position::Last,                                                                                                                            H::Xrceth,                                   PayloadRule::OneToMtu},
    {Opcode::XrcRdmaWriteLastWithImmediate, "XRC RDMA WRITE Last with Immediate", Transport::Xrc,
     Operation::RdmaWrite,                                                                                                    Position::Last,   Headers{H::Xrceth} | H::Immediate,
     PayloadRule::OneToMtu                                                                                                                                                                                        },
    {Opcode::XrcRdmaWriteOnly,              "XRC RDMA WRITE Only",                Transport::Xrc, Operation::RdmaWrite,
     Position::Only,                                                                                                                            Headers{H::Xrceth} | H::Reth,                PayloadRule::UpToMtu },
    {Opcode::XrcRdmaWriteOnlyWithImmediate, "XRC RDMA WRITE Only with Immediate", Transport::Xrc,
     Operation::RdmaWrite,                                                                                                    Position::Only,   Headers{H::Xrceth} | H::Reth | H::Immediate,
     PayloadRule::UpToMtu                                                                                                                                                                                         },
    {Opcode::XrcRdmaReadRequest,            "XRC RDMA READ Request",              Transport::Xrc,
     Operation::RdmaReadRequest,                                                                                              Position::Only,   Headers{H::Xrceth} | H::Reth,                PayloadRule::None    },
    {Opcode::XrcRdmaReadResponseFirst,      "XRC RDMA READ Response First",       Transport::Xrc,
     Operation::RdmaReadResponse,                                                                                             Position::First,  H::Aeth,                                     PayloadRule::FullMtu },
    {Opcode::XrcRdmaReadResponseMiddle,
     "XRC RDMA READ Response Middle",                                             Transport::Xrc,
     Operation::RdmaReadResponse,
     Position::Middle,
     {},
     PayloadRule::FullMtu                                                                                                                                                                                         },
    {Opcode::XrcRdmaReadResponseLast,       "XRC RDMA READ Response Last",        Transport::Xrc,
     Operation::RdmaReadResponse,                                                                                             Position::Last,   H::Aeth,                                     PayloadRule::OneToMtu},
    {Opcode::XrcRdmaReadResponseOnly,       "XRC RDMA READ Response Only",        Transport::Xrc,
     Operation::RdmaReadResponse,                                                                                             Position::Only,   H::Aeth,                                     PayloadRule::UpToMtu },
    {Opcode::XrcAcknowledge,                "XRC Acknowledge",                    Transport::Xrc, Operation::Acknowledge,
     Position::Only,                                                                                                                            H::Aeth,                                     PayloadRule::None    },
    {Opcode::XrcAtomicAcknowledge,          "XRC Atomic Acknowledge",             Transport::Xrc,
     Operation::AtomicAcknowledge,                                                                                            Position::Only,   Headers{H::Aeth} | H::AtomicAckEth,
     PayloadRule::None                                                                                                                                                                                            },
    {Opcode::XrcCompareSwap,                "XRC CmpSwap",                        Transport::Xrc, Operation::CompareSwap,     Position::Only,
     Headers{H::Xrceth} | H::AtomicEth,                                                                                                                                                      PayloadRule::None    },
    {Opcode::XrcFetchAdd,                   "XRC FetchAdd",                       Transport::Xrc, Operation::FetchAdd,        Position::Only,
     Headers{H::Xrceth} | H::AtomicEth,                                                                                                                                                      PayloadRule::None    },
    {Opcode::XrcSendLastWithInvalidate,     "XRC SEND Last with Invalidate",      Transport::Xrc,
     Operation::Send,                                                                                                         Position::Last,   Headers{H::Xrceth} | H::Ieth,                PayloadRule::OneToMtu},
    {Opcode::XrcSendOnlyWithInvalidate,     "XRC SEND Only with Invalidate",      Transport::Xrc,
     Operation::Send,                                                                                                         Position::Only,   Headers{H::Xrceth} | H::Ieth,                PayloadRule::UpToMtu },
    {Opcode::XrcFlush,                      "XRC FLUSH",                          Transport::Xrc, Operation::Flush,           Position::Only,
     Headers{H::Xrceth} | H::Feth | H::Reth,                                                                                                                                                 PayloadRule::None    },
});

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
    case Operation::Flush:
      number = 0x1C;
      break;
    case Operation::AtomicWrite:
      number = 0x1D;
      break;
    case Operation::CongestionNotification:
      number = 0x01;
      break;
  }
  const auto opcode = static_cast<Opcode>(static_cast<unsigned>(transport) << 5 | number);
  WEFT_DEBUG_ASSERT(opcode_info(opcode) != nullptr, "the opcode exists");
  return opcode;
}

}  // namespace weft::wire
